// Command protogen turns the .proto files of package messages into Go, without
// protoc: the compiler and the generator both run in this process.
//
//	go run -C messages/protogen .
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("protogen: ")
	for _, d := range []struct{ dir, prefix string }{
		{"..", "concord/v1/"},
		{"../../actors/etcd/recipepb", "concord/etcd/"},
	} {
		if err := run(d.dir, d.prefix); err != nil {
			log.Fatal(err)
		}
	}
}

// run compiles every .proto in dir and writes a .pb.go beside each. A program may have
// files of others with the same names: ours are registered with a prefix.
func run(dir, prefix string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.proto"))
	if err != nil {
		return err
	}
	names, registered := make([]string, len(paths)), make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
		registered[i] = prefix + names[i]
	}
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{dir}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return err
	}
	// The compiler answers in the order of names; a file must follow what it imports.
	var (
		descriptors []*descriptorpb.FileDescriptorProto
		seen        = map[string]bool{}
	)
	var add func(name string) error
	add = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		file := files.FindFileByPath(name)
		if file == nil {
			return fmt.Errorf("%s: imported but not in %s", name, dir)
		}
		imports := file.Imports()
		for i := range imports.Len() {
			if err := add(imports.Get(i).Path()); err != nil {
				return err
			}
		}
		d := proto.CloneOf(protoutil.ProtoFromFileDescriptor(file))
		d.Name = proto.String(prefix + name)
		for i, imported := range d.Dependency {
			d.Dependency[i] = prefix + imported
		}
		descriptors = append(descriptors, d)
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return err
		}
	}
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: registered,
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      descriptors,
	})
	if err != nil {
		return err
	}
	for _, f := range plugin.Files {
		if f.Generate {
			internal_gengo.GenerateFile(plugin, f)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Join(dir, strings.TrimPrefix(f.GetName(), prefix)), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
