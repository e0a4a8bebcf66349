# A market in a container: docker build -t market -f market.Dockerfile . ; then
#
#   docker run -p 8080:8080 -v $PWD/market:/market:ro,z market
#
# serves the folder `market` as it is at the start, which only has to be readable. Submissions are
# checked elsewhere, where the checker's key lies.
FROM python:3.12-slim
RUN useradd --create-home market && pip install --no-cache-dir "netcl-core" "netcl-plugin-tools[serve]"
USER market
WORKDIR /home/market
EXPOSE 8080
CMD ["netcl", "market", "serve", "/market", "--site", "site", "--host", "0.0.0.0"]
