//go:build tools

// Package tools names the command that this module pins.
package tools

import _ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
