# The image of Tidegate for amd64 and arm64:
#
#   docker build -t tidegate .
#   docker buildx build --platform linux/amd64,linux/arm64 -t registry.example.com/tidegate:0.1.0 --push .
#
# BuildKit compiles it on the machine that builds, for the one that runs: no emulation.

ARG RUST_VERSION=1.95

FROM --platform=$BUILDPLATFORM rust:${RUST_VERSION}-bookworm AS build
ARG TARGETPLATFORM
WORKDIR /build

# The target's name in Rust, and a C compiler and linker for it if it is another machine's.
RUN case "$TARGETPLATFORM" in \
        linux/amd64) arch=x86_64 debian=amd64 gcc=x86-64 ;; \
        linux/arm64) arch=aarch64 debian=arm64 gcc=aarch64 ;; \
        *) echo "no build for the platform '$TARGETPLATFORM'" >&2; exit 1 ;; \
    esac; \
    target=$arch-unknown-linux-gnu; \
    echo "$target" >/target; \
    if [ "$debian" != "$(dpkg --print-architecture)" ]; then \
        apt-get update \
        && apt-get install -y --no-install-recommends \
            "gcc-$gcc-linux-gnu" "libc6-dev-$debian-cross" \
        && rustup target add "$target" \
        && printf '[target.%s]\nlinker = "%s-linux-gnu-gcc"\n' "$target" "$arch" \
            >"$CARGO_HOME/config.toml"; \
    fi

COPY Cargo.toml Cargo.lock build.rs ./
COPY benches/*.rs benches/
COPY envoy/proto envoy/proto
COPY lua lua
COPY src src
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target,id=tidegate-$TARGETPLATFORM \
    cargo build --release --locked --bin tidegate --target "$(cat /target)" \
    && mkdir /image \
    && cp "target/$(cat /target)/release/tidegate" /image/ \
    # By these names it is the server and the checker of envoyproxy/ratelimit.
    && ln -s tidegate /image/ratelimit \
    && ln -s tidegate /image/ratelimit_config_check

# glibc, libgcc and the authorities of the web; no shell, no package manager.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /image/ /bin/

# Policies to begin with, where the program looks for them if it is told nothing. POLICIES is not set
# here, because it would win over the RUNTIME_ROOT and so on of who comes from envoyproxy/ratelimit.
WORKDIR /etc/tidegate
COPY config/policies config/policies

# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# HTTP, gRPC. The admin port, 6070, is on loopback.
EXPOSE 8080 8081
ENTRYPOINT ["/bin/tidegate"]
