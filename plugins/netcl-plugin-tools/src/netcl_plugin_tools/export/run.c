/* Runs this folder's model by OpenCL alone, on the example:
 *     cc -O2 run.c -lOpenCL -lm -o run && ./run
 * `load` reads plan.txt once; then write the inputs, call `run`, and read the outputs. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 65536
typedef struct { int buffer; size_t bytes; char dtype[16]; } Place;
typedef struct { char word[8]; cl_kernel kernel; cl_uint dims; size_t sizes[6]; int to, from;
                 size_t bytes, pattern; unsigned char value[16]; } Step;
static cl_context context; static cl_command_queue queue; static cl_device_id device;
static cl_mem buffers[MOST]; static Place inputs[64], outputs[64]; static Step steps[MOST];
static int made, given, results, count;

static void check(cl_int code, const char *what) {
    if (code) { fprintf(stderr, "%s: OpenCL error %d\n", what, code); exit(1); }
}
static void *contents(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb"); char *data;
    if (!file) { perror(path); exit(1); }
    fseek(file, 0, SEEK_END); *size = ftell(file); rewind(file);
    data = calloc(*size + 1, 1);
    if (fread(data, 1, *size, file) != *size) { perror(path); exit(1); }
    fclose(file); return data;
}
static size_t bytes_of(const char *hex, unsigned char *out) {
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) { unsigned x; sscanf(hex + 2 * i, "%2x", &x); out[i] = x; }
    return n;
}
static void choose(const char *wanted) {
    cl_platform_id platforms[16]; cl_device_id found[16]; cl_uint n, m; char name[256];
    check(clGetPlatformIDs(16, platforms, &n), "clGetPlatformIDs");
    for (cl_uint i = 0; i < n; i++) {
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 16, found, &m)) continue;
        for (cl_uint j = 0; j < m; j++) {
            clGetDeviceInfo(found[j], CL_DEVICE_NAME, sizeof name, name, NULL);
            if (!device || !strcmp(name, wanted)) device = found[j];
            if (!strcmp(name, wanted)) return;
        }
    }
}
static void load(void) {
    cl_program programs[MOST]; int programs_made = 0, a, n; cl_int code; size_t size;
    char word[16], text[512], options[64], name[256], hex[512]; unsigned char packed[256];
    unsigned char *weights = contents("weights.safetensors", &size);
    FILE *plan = fopen("plan.txt", "r");
    if (!plan || fscanf(plan, "device %255[^\n]", name) != 1) { perror("plan.txt"); exit(1); }
    choose(name);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code); check(code, "context");
    queue = clCreateCommandQueue(context, device, 0, &code); check(code, "queue");
    while (fscanf(plan, "%15s", word) == 1) {
        Step *step = &steps[count];
        if (!strcmp(word, "program") && fscanf(plan, "%511s %63s", text, options) == 2) {
            const char *source = contents(text, &size);
            cl_program made_now = clCreateProgramWithSource(context, 1, &source, &size, &code);
            check(clBuildProgram(made_now, 1, &device, options, NULL, NULL), text);
            programs[programs_made++] = made_now;
        } else if (!strcmp(word, "buffer")) {
            long begin; if (fscanf(plan, "%zu %ld", &size, &begin) != 2) exit(1);
            buffers[made] = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &code);
            check(code, "buffer");
            if (begin >= 0) check(clEnqueueWriteBuffer(queue, buffers[made], CL_TRUE, 0, size,
                                                       weights + begin, 0, NULL, NULL), "weights");
            made++;
        } else if (!strcmp(word, "input") || !strcmp(word, "output")) {
            Place *place = word[0] == 'i' ? &inputs[given++] : &outputs[results++];
            if (fscanf(plan, "%d %zu %15s%*[^\n]", &place->buffer, &place->bytes, place->dtype) < 3)
                exit(1);
        } else if (!strcmp(word, "launch")) {
            if (fscanf(plan, "%d %255s %u", &a, name, &step->dims) != 3) exit(1);
            step->kernel = clCreateKernel(programs[a], name, &code); check(code, name);
            for (cl_uint i = 0; i < 2 * step->dims; i++)
                if (fscanf(plan, "%zu", &step->sizes[i]) != 1) exit(1);
            if (fscanf(plan, "%d", &n) != 1) exit(1);
            for (a = 0; a < n; a++) {
                int number; if (fscanf(plan, "%d", &number) != 1) exit(1);
                check(clSetKernelArg(step->kernel, a, sizeof(cl_mem),
                                     number < 0 ? NULL : &buffers[number]), name);
            }
            if (fscanf(plan, "%d", &n) != 1) exit(1);
            for (n += a; a < n; a++) {
                if (fscanf(plan, "%511s", hex) != 1) exit(1);
                size = bytes_of(hex, packed); check(clSetKernelArg(step->kernel, a, size, packed), name);
            }
            strcpy(steps[count++].word, "launch");
        } else if (!strcmp(word, "copy")) {
            if (fscanf(plan, "%d %d %zu", &step->to, &step->from, &step->bytes) != 3) exit(1);
            strcpy(steps[count++].word, "copy");
        } else if (!strcmp(word, "fill")) {
            if (fscanf(plan, "%d %zu %511s", &step->to, &step->bytes, hex) != 3) exit(1);
            step->pattern = bytes_of(hex, step->value); strcpy(steps[count++].word, "fill");
        } else { fprintf(stderr, "plan.txt: %s?\n", word); exit(1); }
    }
    fclose(plan); free(weights);
}
static void run(void) {
    for (Step *s = steps; s < steps + count; s++)
        if (s->word[0] == 'l')
            check(clEnqueueNDRangeKernel(queue, s->kernel, s->dims, NULL, s->sizes,
                  s->sizes[s->dims] ? s->sizes + s->dims : NULL, 0, NULL, NULL), "launch");
        else if (s->word[0] == 'c')
            check(clEnqueueCopyBuffer(queue, buffers[s->from], buffers[s->to], 0, 0, s->bytes,
                                      0, NULL, NULL), "copy");
        else check(clEnqueueFillBuffer(queue, buffers[s->to], s->value, s->pattern, 0, s->bytes,
                                       0, NULL, NULL), "fill");
}
int main(void) {
    char path[64]; size_t size; load();
    for (int i = 0; i < given; i++) {
        sprintf(path, "example/input%d.bin", i);
        check(clEnqueueWriteBuffer(queue, buffers[inputs[i].buffer], CL_TRUE, 0, inputs[i].bytes,
                                   contents(path, &size), 0, NULL, NULL), "input");
    }
    run();
    for (int i = 0; i < results; i++) {
        sprintf(path, "example/output%d.bin", i);
        void *expected = contents(path, &size), *found = malloc(size); double most = 0;
        check(clEnqueueReadBuffer(queue, buffers[outputs[i].buffer], CL_TRUE, 0, size, found,
                                  0, NULL, NULL), "output");
        if (!strcmp(outputs[i].dtype, "float32"))
            for (size_t k = 0; k < size / 4; k++)
                most = fmax(most, fabs((double)((float *)found)[k] - ((float *)expected)[k]));
        else most = memcmp(found, expected, size) != 0;
        printf("output %d: %zu bytes of %s, largest difference %.3g\n", i, size, outputs[i].dtype, most);
    }
    return 0;
}
