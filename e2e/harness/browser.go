package harness

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// ErrNoBrowser says that there is none to try a page in.
var ErrNoBrowser = errors.New("there is no Chromium here")

// Browser runs a headless Chromium to which every name is this machine, with dir as
// its profile. It ends with the function, which the caller has to call.
func Browser(ctx context.Context, dir string, more ...chromedp.ExecAllocatorOption) (context.Context, context.CancelFunc, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, nil, ErrNoBrowser
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
