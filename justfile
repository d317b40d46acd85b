# The commands of CONTRIBUTING.md. Each works without just, too.

# List the commands
_list:
    @just --list

# Start a stack with a cluster in it, until Ctrl-C
up *ARGS="-f examples/test-cluster.yaml":
    cargo run -- up {{ ARGS }}

# Run all tests
test:
    cargo test --workspace

# Run one story on the real stack
story NAME:
    cargo test -p layercake --test stories {{ NAME }}

# Run the stories that are too slow for every run: outages of ten minutes, machines that boot (LAYERCAKE_NODE_IMAGE, LAYERCAKE_MANAGEMENT_IMAGE)
slow:
    cargo test -p layercake --test stories -- --ignored

# Check and test one crate
crate NAME:
    cargo clippy -p {{ NAME }} --all-targets -- -D warnings
    cargo test -p {{ NAME }}

# Check everything that needs no tests
lint:
    cargo fmt --all --check
    hack/words
    hack/pages
    cargo run --quiet -p imports
    cargo clippy --workspace --all-targets -- -D warnings

# Build the images of the three programs into target/images
images:
    release/build-images

# Write the generated files anew
generate:
    hack/generate

# Run what must pass before a change lands
ci:
    .ci/run

# Feed every parser of untrusted input for a minute each
fuzz *ARGS="--seconds 60":
    cargo run --release -p fuzz -- {{ ARGS }}
