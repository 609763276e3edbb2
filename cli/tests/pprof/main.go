// Reads a profile with the library that pprof itself is made of, and prints what it holds: each sample
// type with its sum, then how many samples, locations and functions there are.
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		fail(err)
	}
	read, err := profile.Parse(file)
	if err != nil {
		fail(err)
	}
	if err := read.CheckValid(); err != nil {
		fail(err)
	}
	for i, kind := range read.SampleType {
		var sum int64
		for _, sample := range read.Sample {
			sum += sample.Value[i]
		}
		fmt.Printf("%s/%s %d\n", kind.Type, kind.Unit, sum)
	}
	fmt.Printf("samples %d\nlocations %d\nfunctions %d\n", len(read.Sample), len(read.Location), len(read.Function))
	// What merging services do first: it fails where samples and locations do not hang together.
	merged, err := profile.Merge([]*profile.Profile{read, read.Copy()})
	if err != nil {
		fail(err)
	}
	if len(merged.Sample) > len(read.Sample) {
		fail(fmt.Errorf("%d samples merged with themselves are %d", len(read.Sample), len(merged.Sample)))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
