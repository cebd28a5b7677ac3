// Command gobuild SOURCE OUTPUT WORKSPACE builds one Go program.
//
// A program that imports only the standard library is compiled and linked directly against the archives that were
// made with the root: neither a cache nor the go command is started, and nothing is written but the output. Anything
// else (a package of the workspace's module, cgo, an embedded file) goes through `go build` with the source laid
// over the workspace as main.go, so that it means what it would mean there.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

const (
	prepared = "/usr/lib/workroom/go"
	config   = prepared + "/importcfg"
	cache    = prepared + "/cache"
	goroot   = "/usr/lib/go" // Debian's link to its default version
)

func main() {
	if len(os.Args) != 4 {
		fail("usage: gobuild SOURCE OUTPUT WORKSPACE")
	}
	source, output, workspace := os.Args[1], os.Args[2], os.Args[3]
	text, err := os.ReadFile(source)
	if err != nil {
		fail(err.Error())
	}
	if usual(source, text) {
		direct(source, output)
	}
	whole(source, output, workspace, bytes.Contains(text, []byte(`"C"`)))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}

// usual tells whether the direct way means the same as `go build`. A source that cannot be parsed goes the direct
// way too: the compiler's message is the one to show.
func usual(source string, text []byte) bool {
	if bytes.Contains(text, []byte("//go:embed")) {
		return false
	}
	file, err := parser.ParseFile(token.NewFileSet(), source, text, parser.ImportsOnly|parser.SkipObjectResolution)
	if err != nil {
		return true
	}
	if file.Name.Name != "main" {
		fail("package " + file.Name.Name + " is not a main package")
	}
	known, err := os.ReadFile(config)
	if err != nil {
		return false
	}
	for _, item := range file.Imports {
		path, err := strconv.Unquote(item.Path.Value)
		if err != nil || path != "unsafe" && !bytes.Contains(known, []byte("packagefile "+path+"=")) {
			return false
		}
		if path == "C" || strings.HasPrefix(path, "vendor/") || strings.Contains("/"+path+"/", "/internal/") {
			return false
		}
	}
	return true
}

// direct compiles and links, and does not return.
func direct(source, output string) {
	version := strings.Join(strings.SplitN(runtime.Version(), ".", 3)[:2], ".")
	tools := filepath.Join(goroot, "pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH)
	object := output + ".a"
	compile := exec.Command(filepath.Join(tools, "compile"), "-p", "main", "-lang="+version, "-complete",
		"-importcfg", config, "-o", object, "-pack", "./"+filepath.Base(source))
	compile.Dir = filepath.Dir(source)
	compile.Env = os.Environ()
	compile.Stdout, compile.Stderr = os.Stderr, os.Stderr
	if err := compile.Run(); err != nil {
		os.Exit(1)
	}
	link := filepath.Join(tools, "link")
	arguments := []string{link, "-importcfg", config, "-s", "-w", "-buildmode=exe", "-o", output, object}
	fail(syscall.Exec(link, arguments, os.Environ()).Error())
}

// whole runs `go build` over the workspace, and does not return.
func whole(source, output, workspace string, usesC bool) {
	scratch := filepath.Dir(output)
	own := filepath.Join(scratch, "gocache")
	seed(own)
	overlay := filepath.Join(scratch, "overlay.json")
	place := filepath.Join(workspace, filepath.Base(source))
	laid, err := json.Marshal(map[string]map[string]string{"Replace": {place: source}})
	if err != nil {
		fail(err.Error())
	}
	if err := os.WriteFile(overlay, laid, 0o600); err != nil {
		fail(err.Error())
	}
	tool := filepath.Join(goroot, "bin", "go")
	if err := os.Chdir(workspace); err != nil {
		fail(err.Error())
	}
	cgo := "0"
	if usesC {
		cgo = "1"
	}
	environment := append(os.Environ(), "GOCACHE="+own, "CGO_ENABLED="+cgo)
	arguments := []string{tool, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-overlay", overlay, "-o", output, place}
	fail(syscall.Exec(tool, arguments, environment).Error())
}

// seed makes a writable cache whose entries are links to the root's.
func seed(own string) {
	folders, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		from, to := filepath.Join(cache, folder.Name()), filepath.Join(own, folder.Name())
		if err := os.MkdirAll(to, 0o700); err != nil {
			return
		}
		entries, err := os.ReadDir(from)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			_ = os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name()))
		}
	}
}
