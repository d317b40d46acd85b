module layercake.invalid/test/upstream-secrets

go 1.26.0
