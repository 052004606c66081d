// Package chromium drives a headless Chromium: tabs, and a web site of the tests' own.
package chromium

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// ErrNone is returned by [Launch] where no Chromium is installed.
var ErrNone = errors.New("no Chromium is installed")

// Launch starts a headless Chromium, in which every host name is this machine, with
// dir as its profile. The caller has to call the function, which stops it.
func Launch(ctx context.Context, dir string, more ...chromedp.ExecAllocatorOption) (context.Context, context.CancelFunc, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, nil, ErrNone
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir),
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	options = append(options, more...)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
	tab, cancel := chromedp.NewContext(allocator)
	end := func() {
		cancel()
		stop()
	}
	if err := chromedp.Do(tab); err != nil {
		end()
		return nil, nil, err
	}
	return tab, end, nil
}
