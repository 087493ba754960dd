# src/manual/container.md explains how to build and use it.

# The program is the same on every platform, and so is what its packages are made of, but for the native library. So both stages run on
# the builder's platform, so that Node need not be emulated.
FROM --platform=$BUILDPLATFORM node:24-bookworm-slim AS build
WORKDIR /build
# Packages change less often than sources. No script of theirs is needed: the native library comes compiled.
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts
COPY . .
RUN npm run build

FROM --platform=$BUILDPLATFORM node:24-bookworm-slim AS dependencies
ARG TARGETARCH
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# npm calls amd64 x64, as Node does.
RUN --mount=type=cache,target=/root/.npm \
  npm ci --omit=dev --ignore-scripts --os=linux --libc=glibc --cpu="$(echo "$TARGETARCH" | sed s/amd64/x64/)"

FROM node:24-bookworm-slim
# Process 1 must reap the processes that hooks leave behind, which Node does not do.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends tini \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old
# The user has no name, as some platforms give another number anyway. Its group is root's, which those platforms keep (OpenShift):
# it may write here, and nothing else of root's.
RUN ln -s ../lib/node_modules/workbook-mirror/dist/main.js /usr/local/bin/workbook-mirror \
  && install --directory --owner=65532 --group=0 --mode=0775 /data
# The folder of `npm install --global`, so that the program finds packages installed beside it.
WORKDIR /usr/local/lib/node_modules/workbook-mirror
COPY --from=dependencies /build/node_modules node_modules
# Fails if the native library is for another platform.
RUN node --eval "import('koffi')"
# `help` reads the first steps in the README; the chapters are in dist, as all but the native library is.
COPY --chmod=644 package.json README.md LICENSE ./
COPY --from=build /build/dist dist

# Otherwise each thread keeps unused memory in an arena of its own, 10 MB in all (mallopt(3)).
ENV MALLOC_ARENA_MAX=1
# Both override a settings file. The loopback of a container cannot be reached from outside.
ENV WORKBOOK_MIRROR_DIRECTORY=/data \
  WORKBOOK_MIRROR_HTTP_LISTEN=0.0.0.0:9480
VOLUME /data
EXPOSE 9480
USER 65532:0
STOPSIGNAL SIGTERM

# Asks the address in the variable; 0.0.0.0 and [::] mean this machine. With `off` there is nothing to ask.
HEALTHCHECK --interval=30s --timeout=10s --start-period=2m --retries=3 CMD ["node", "-e", "const at = process.env.WORKBOOK_MIRROR_HTTP_LISTEN; if (at !== 'off') fetch(`http://${at}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

# -s: reaps processes even if the container has another process 1 (docker run --init, shareProcessNamespace).
ENTRYPOINT ["tini", "-s", "--", "workbook-mirror"]
CMD ["run"]

# The last layer, as it changes with every commit.
ARG REVISION=unknown
LABEL org.opencontainers.image.title="workbook-mirror" \
  org.opencontainers.image.description="Keeps an exact, always readable copy of a workbook version-control service on local disk" \
  org.opencontainers.image.version="0.2.0" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.licenses="MIT"
