"""For tools: a look into the engine, public and versioned as the hooks are (`nc.API_VERSION`).

| module | what it shows |
|---|---|
| `expressions` | the expressions of elementwise kernels as trees |
| `sources` | how ops become kernels: regions, plans, rendered sources |
| `streams` | what a device is asked to do, and wrappers that see it |
| `runtimes` | OpenCL runtimes and devices, with those that cannot be used |
| `captures` | what a capture takes down of a thread |
| `recorded` | what a tape has recorded |
| `programs` | what a compiled function became |
| `choices` | which implementation and settings serve a call, and why |
| `data` | host data and files |

Nothing of netcl_core but these modules, the faces (`netcl_core`, `.autograd`, `.errors`, `.cli`,
`.config`, `.files`, `.plugins`) and `netcl_core.plugins.protocol` may be imported from outside. A
name leaves them, or changes its meaning, only with the major number of the version.
"""
