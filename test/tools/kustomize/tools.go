//go:build tools

// Package tools names the command that this module pins.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
