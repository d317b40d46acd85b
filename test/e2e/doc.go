// Package e2e runs Cluster API's own end-to-end specs, as they are, against a running stack of `layercake up`.
//
// test/e2e/run starts the stack, makes the repository of templates, and runs the specs one after the other.
package e2e
