package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// start defines the provider's kinds and runs it, with its webhooks, as an administrator of the stack; it returns what ends it.
func start(ctx context.Context, config *rest.Config, program, manifests string) (func(), error) {
	webhooks := envtest.WebhookInstallOptions{Paths: []string{filepath.Join(manifests, "webhook", "manifests.yaml")}, IgnoreSchemeConvertible: true}
	if err := webhooks.PrepWithoutInstalling(); err != nil {
		return nil, err
	}
	definitions := envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(manifests, "crd", "bases")}, ErrorIfPathMissing: true,
		WebhookOptions: webhooks,
	}
	if err := envtest.ReadCRDFiles(&definitions); err != nil {
		return nil, err
	}
	definitions.Paths = nil
	for _, definition := range definitions.CRDs {
		// The contracts that its kinds are of, as its kustomization has them.
		definition.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
	}
	if _, err := envtest.InstallCRDs(config, definitions); err != nil {
		return nil, err
	}
	if err := webhooks.Install(config); err != nil {
		return nil, err
	}
	health, err := free()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(filepath.Dir(program), "provider.log"))
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program,
		"--kubeconfig="+os.Getenv(clientcmd.RecommendedConfigPathEnvVar),
		fmt.Sprintf("--webhook-port=%d", webhooks.LocalServingPort), "--webhook-cert-dir="+webhooks.LocalServingCertDir,
		"--health-addr="+health, "--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics=true",
		"--feature-gates=MachinePool=false")
	command.Env = append(os.Environ(), "POD_IP=127.0.0.1")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = webhooks.Cleanup()
	}
	isReady := func(ctx context.Context) (bool, error) {
		answer, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false, nil
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	}
	if err := wait.PollUntilContextTimeout(ctx, look, time.Minute, true, isReady); err != nil {
		stop()
		return nil, fmt.Errorf("it is not ready: %w; its log is %s", err, log.Name())
	}
	return stop, nil
}

// free is an address on loopback where nobody listens.
func free() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
