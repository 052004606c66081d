//go:build !linux

package main

import "syscall"

// dup makes one descriptor a copy of another.
func dup(from, to int) error { return syscall.Dup2(from, to) }
