//go:build peers

// With the tag `peers`, daprd has Dapr's own components for Redis and etcd, to be measured beside ours.
package main

import (
	"github.com/dapr/components-contrib/state/etcd"
	"github.com/dapr/components-contrib/state/redis"
	"github.com/dapr/dapr/pkg/components"
	"github.com/dapr/dapr/pkg/components/state"
)

func init() {
	state.DefaultRegistry.RegisterComponent(redis.NewRedisStateStore, "redis")
	state.DefaultRegistry.RegisterComponentWithVersions("etcd", components.Versioning{
		Preferred: components.VersionConstructor{Version: "v2", Constructor: etcd.NewEtcdStateStoreV2},
		Default:   "v2",
	})
}
