// Command certmanager runs cert-manager's controllers with one kubeconfig: what its commands controller and cainjector do for
// certificates of a self-signed authority. Those commands are modules that the module proxy does not have.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/api"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// workers of each controller.
const workers = 2

func main() {
	log.SetFlags(0)
	log.SetPrefix("certmanager: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: certmanager KUBECONFIG")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run runs everything until the context ends, or until a part fails.
func run(ctx context.Context, kubeconfig string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts, err := issuing(ctx, kubeconfig)
	if err != nil {
		return err
	}
	injecting, err := injecting(ctx, kubeconfig)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	failures := make(chan error, len(parts)+1)
	for _, part := range append(parts, injecting) {
		wait.Go(func() {
			if err := part(); err != nil {
				failures <- err
				cancel()
			}
		})
	}
	wait.Wait()
	close(failures)
	var all []error
	for err := range failures {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// issuing are the controllers that this program is linked with.
func issuing(ctx context.Context, kubeconfig string) ([]func() error, error) {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return nil, err
	}
	shared, err := factory.Build()
	if err != nil {
		return nil, err
	}
	var parts []func() error
	for name, build := range controller.Known() {
		one, err := build(factory)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		parts = append(parts, func() error { return one.Run(workers, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return parts, nil
}

// injecting writes authorities into webhook configurations and definitions.
func injecting(ctx context.Context, kubeconfig string) (func() error, error) {
	ctrl.SetLogger(logs.Log)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// It also names the field manager.
	config = util.RestConfigWithUserAgent(config, "cainjector")
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), apiextensions.AddToScheme(kinds), api.AddToScheme(kinds)); err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  kinds,
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true, cainjector.CustomResourceDefinitionName: true,
		},
	})
	return func() error { return manager.Start(ctx) }, err
}
