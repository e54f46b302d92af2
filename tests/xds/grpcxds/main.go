// Grpcxds is gRPC's own xDS client, and a backend for it.
//
//	grpcxds serve NAME      a health service on a free port of 127.0.0.1: prints its address, and answers
//	                        each call with NAME in the header `backend`
//	grpcxds call TARGET     for each line on standard input, one call to TARGET (xds:///name); prints
//	                        `backend=NAME` or `error=CODE text`
//
// The client finds its xDS server as any gRPC client does, by GRPC_XDS_BOOTSTRAP_CONFIG. Both end with
// their standard input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
)

// patience is how long a call may wait for configuration and for a connection.
const patience = 5 * time.Second

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: grpcxds serve NAME | grpcxds call TARGET")
	}
	run := map[string]func(string) error{"serve": serve, "call": call}[os.Args[1]]
	if run == nil {
		log.Fatalf("unknown command %q", os.Args[1])
	}
	if err := run(os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func serve(name string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	introduce := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if err := grpc.SetHeader(ctx, metadata.Pairs("backend", name)); err != nil {
			return nil, err
		}
		return handle(ctx, request)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(introduce))
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	fmt.Println(listener.Addr())
	return server.Serve(listener)
}

func call(target string) error {
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := healthpb.NewHealthClient(connection)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(callOnce(client))
	}
	return lines.Err()
}

func callOnce(client healthpb.HealthClient) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var header metadata.MD
	_, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header))
	if err != nil {
		said := status.Convert(err)
		return fmt.Sprintf("error=%v %s", said.Code(), strings.ReplaceAll(said.Message(), "\n", " "))
	}
	return "backend=" + strings.Join(header.Get("backend"), ",")
}
