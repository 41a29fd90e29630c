// Command daprd is Dapr's sidecar without the components that are compiled into it: with pluggable ones alone, it builds in half the
// time and is half as large.
package main

import (
	"context"
	"log"
	"os"

	"github.com/dapr/dapr/cmd/daprd/options"
	"github.com/dapr/dapr/pkg/components/bindings"
	"github.com/dapr/dapr/pkg/components/configuration"
	"github.com/dapr/dapr/pkg/components/crypto"
	"github.com/dapr/dapr/pkg/components/lock"
	"github.com/dapr/dapr/pkg/components/middleware/http"
	"github.com/dapr/dapr/pkg/components/nameresolution"
	"github.com/dapr/dapr/pkg/components/pubsub"
	"github.com/dapr/dapr/pkg/components/secretstores"
	"github.com/dapr/dapr/pkg/components/state"
	"github.com/dapr/dapr/pkg/components/wfbackend"
	"github.com/dapr/dapr/pkg/components/workflows"
	"github.com/dapr/dapr/pkg/healthz"
	"github.com/dapr/dapr/pkg/metrics"
	"github.com/dapr/dapr/pkg/modes"
	"github.com/dapr/dapr/pkg/runtime"
	"github.com/dapr/dapr/pkg/runtime/registry"
	"github.com/dapr/dapr/pkg/security"
	"github.com/dapr/kit/concurrency"
	"github.com/dapr/kit/logger"
	"github.com/dapr/kit/signals"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	given, err := options.New(os.Args[1:])
	if err != nil {
		return err
	}
	if err := logger.ApplyOptionsToLoggers(&given.Logger); err != nil {
		return err
	}
	own := logger.NewLogger("daprd")
	nameresolution.DefaultRegistry.Logger = own
	state.DefaultRegistry.Logger = own
	wfbackend.DefaultRegistry.Logger = own
	workflows.DefaultRegistry.Logger = own
	components := registry.NewOptions().
		WithBindings(bindings.DefaultRegistry).
		WithConfigurations(configuration.DefaultRegistry).
		WithCryptoProviders(crypto.DefaultRegistry).
		WithHTTPMiddlewares(http.DefaultRegistry).
		WithLocks(lock.DefaultRegistry).
		WithNameResolutions(nameresolution.DefaultRegistry).
		WithPubSubs(pubsub.DefaultRegistry).
		WithSecretStores(secretstores.DefaultRegistry).
		WithStateStores(state.DefaultRegistry).
		WithWorkflowBackends(wfbackend.DefaultRegistry).
		WithWorkflows(workflows.DefaultRegistry)
	health := healthz.New()
	ctx := signals.Context()
	provider, err := security.New(ctx, security.Options{
		AppID:                   given.AppID,
		ControlPlaneNamespace:   given.ControlPlaneNamespace,
		ControlPlaneTrustDomain: given.ControlPlaneTrustDomain,
		Healthz:                 health,
		MTLSEnabled:             given.EnableMTLS,
		Mode:                    modes.DaprMode(given.Mode),
		SentryAddress:           given.SentryAddress,
		TrustAnchors:            given.TrustAnchors,
	})
	if err != nil {
		return err
	}
	serve := func(ctx context.Context) error {
		handler, err := provider.Handler(ctx)
		if err != nil {
			return err
		}
		sidecar, err := runtime.FromConfig(ctx, &runtime.Config{
			AppID:                         given.AppID,
			AllowedOrigins:                given.AllowedOrigins,
			AppChannelAddress:             given.AppChannelAddress,
			AppProtocol:                   given.AppProtocol,
			DaprAPIGRPCPort:               given.DaprAPIGRPCPort,
			DaprAPIListenAddresses:        given.DaprAPIListenAddresses,
			DaprGracefulShutdownSeconds:   given.DaprGracefulShutdownSeconds,
			DaprHTTPPort:                  given.DaprHTTPPort,
			DaprInternalGRPCListenAddress: given.DaprInternalGRPCListenAddress,
			DaprInternalGRPCPort:          given.DaprInternalGRPCPort,
			DaprPublicListenAddress:       given.DaprPublicListenAddress,
			DaprPublicPort:                given.DaprPublicPort,
			Healthz:                       health,
			MaxRequestSize:                given.MaxRequestSize,
			Metrics: metrics.Options{
				Enabled:   given.Metrics.Enabled(),
				Healthz:   health,
				Log:       own,
				Namespace: metrics.DefaultMetricNamespace,
				Port:      given.Metrics.Port(),
			},
			Mode:           given.Mode,
			ProfilePort:    given.ProfilePort,
			ReadBufferSize: given.ReadBufferSize,
			Registry:       components,
			ResourcesPath:  given.ResourcesPath,
			Security:       handler,
		})
		if err != nil {
			return err
		}
		return sidecar.Run(ctx)
	}
	return concurrency.NewRunnerManager(provider.Run, serve).Run(ctx)
}
