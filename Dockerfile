# The packages that the service needs at runtime. No compiler: better-sqlite3 brings its binaries, and .npmrc disables install
# scripts. Only the choice of the binary depends on the target platform.
FROM --platform=$BUILDPLATFORM node:24.21.0-slim AS files
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional
COPY ops/prune.ts ops/
ARG TARGETARCH
RUN node ops/prune.ts node_modules "linux-$(echo "$TARGETARCH" | sed s/amd64/x64/)"
# Only sources: a note of the owner of the checkout stays out of the image.
COPY src ./src
RUN find src -type f ! -name '*.ts' ! -name '*.css' ! -path src/launcher.cjs ! -path src/page/browser/index.html ! -path src/page/browser/icon.svg -delete

# The service writes only to /data and /tmp, so the rest can be read-only. It reads models.json, characters/ and lorebooks/
# from /config.
FROM node:24.21.0-slim
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/data CONFIG_DIR=/config
# glibc returns large buffers to the system when they are freed (docs/decisions/0030-plain-code-and-workers.md).
ENV MALLOC_MMAP_THRESHOLD_=1048576 MALLOC_TRIM_THRESHOLD_=16777216
COPY --from=files /app/node_modules ./node_modules
COPY package.json README.md LICENSE ./
COPY openapi ./openapi
COPY data/characters ./data/characters
COPY --from=files /app/src ./src
RUN mkdir /config /data && chown node:node /data \
  && ln -s /app/src/launcher.cjs /usr/local/bin/conservatory
USER node
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=30s --timeout=3s --start-period=5s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/readyz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "src/launcher.cjs"]
