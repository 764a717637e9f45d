# The sidecar as an image: `docker compose --profile app up`.
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends libssl-dev pkg-config zlib1g-dev
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin dlo

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/dlo /usr/local/bin/dlo
USER 65532:65532
EXPOSE 8390 9390
ENTRYPOINT ["dlo"]
CMD ["run"]
