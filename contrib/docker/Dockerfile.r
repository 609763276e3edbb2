# R under Pagewise. First `make deb`, then, at the top of the repository:
#     docker build -f contrib/docker/Dockerfile.r -t r-pagewise .
#     docker run --rm --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges r-pagewise -e 'sum(1:10)'
FROM debian:bookworm-slim
COPY build/deb/*.deb /tmp/deb/
RUN apt-get update \
    && apt-get install -y --no-install-recommends r-base-core /tmp/deb/libpagewise0_*.deb /tmp/deb/pagewise_*.deb /tmp/deb/r-cran-pagewise_*.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/deb \
    && useradd --create-home r
USER r
ENTRYPOINT ["pagewise", "run", "--quiet", "--", "Rscript"]
