// A job that runs with a slot of its tenant, and pays for the tokens that it has used.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"example.com/holds/weir"
)

//go:generate go tool oapi-codegen -package weir -generate types,client -include-tags callers -o weir/client.go weir.json

func main() {
	job, address := os.Args[1], os.Args[2]
	ctx := context.Background()
	client, err := weir.NewClientWithResponses(address)
	if err != nil {
		log.Fatal(err)
	}
	maxDelay := "5s"
	slot := request("tenant", job, 1)
	acquired, err := client.PostHoldsAcquireWithResponse(ctx, weir.AcquireRequest{Request: slot, MaxDelay: &maxDelay})
	if err != nil {
		log.Fatal(err)
	}
	if acquired.JSON200 == nil {
		log.Fatalf("%s: no slot: %s %s", job, acquired.Status(), acquired.Body)
	}
	err = run(ctx, client, job)
	if _, lost := client.PostHoldsReleaseWithResponse(ctx, weir.HoldRequest{Request: slot}); lost != nil {
		log.Print(lost) // the slot expires
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client *weir.ClientWithResponses, job string) error {
	reservation := weir.HoldRequest{Request: request("tokens", job, 1000)}
	reserved, err := client.PostHoldsReserveWithResponse(ctx, reservation)
	if err != nil {
		return err
	}
	if reserved.JSON200 == nil {
		return fmt.Errorf("%s: no tokens: %s %s", job, reserved.Status(), reserved.Body)
	}
	used := 640 // known when the work is done
	committed, err := client.PostHoldsCommitWithResponse(ctx, weir.HoldRequest{Request: request("tokens", job, used)})
	if err != nil {
		return err
	}
	if committed.JSON200 == nil {
		return fmt.Errorf("%s: not charged: %s %s", job, committed.Status(), committed.Body)
	}
	fmt.Printf("%s: charged %d tokens\n", job, committed.JSON200.Charged)
	return nil
}

func request(key, job string, hits int) weir.RateLimitRequest {
	entries := []weir.DescriptorEntry{{Key: key, Value: "acme"}, {Key: "request_id", Value: job}}
	return weir.RateLimitRequest{
		Domain:      "jobs",
		Descriptors: []weir.RateLimitDescriptor{{Entries: entries}},
		HitsAddend:  &hits,
	}
}
