// A control plane built on go-control-plane, for tests.
//
// It serves aggregated discovery on the address that is its argument, and prints "listening". Each line on stdin is a snapshot,
// {"version": …, "resources": [RateLimitConfig as JSON of protobuf …]}, for the node "weir"; a snapshot that is set is printed as
// "set <version>". Each request is printed as "request <version> <nonce> <error>".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
)

const node = "weir"

type snapshot struct {
	Version   string
	Resources []json.RawMessage
}

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	snapshots := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	callbacks := server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, request *discovery.DiscoveryRequest) error {
			fmt.Printf("request %q %q %q\n", request.VersionInfo, request.ResponseNonce, request.ErrorDetail.GetMessage())
			return nil
		},
	}
	grpcServer := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(grpcServer, server.NewServer(context.Background(), snapshots, callbacks))
	go func() { log.Fatal(grpcServer.Serve(listener)) }()
	fmt.Println("listening")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		version, err := set(snapshots, lines.Bytes())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("set %q\n", version)
	}
}

func set(snapshots cache.SnapshotCache, line []byte) (string, error) {
	var read snapshot
	if err := json.Unmarshal(line, &read); err != nil {
		return "", err
	}
	resources := make([]types.Resource, 0, len(read.Resources))
	for _, text := range read.Resources {
		config := &ratelimit.RateLimitConfig{}
		if err := protojson.Unmarshal(text, config); err != nil {
			return "", err
		}
		resources = append(resources, config)
	}
	made, err := cache.NewSnapshot(read.Version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err != nil {
		return "", err
	}
	return read.Version, snapshots.SetSnapshot(context.Background(), node, made)
}
