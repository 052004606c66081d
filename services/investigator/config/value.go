package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span: 30s, 5m, 365d.
type Duration time.Duration

// day is what time.ParseDuration lacks.
const day = 24 * time.Hour

// String returns d in its shortest form.
func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t != 0 && t%day == 0:
		return strconv.FormatInt(int64(t/day), 10) + "d"
	case t != 0 && t%time.Hour == 0:
		return strconv.FormatInt(int64(t/time.Hour), 10) + "h"
	case t != 0 && t%time.Minute == 0:
		return strconv.FormatInt(int64(t/time.Minute), 10) + "m"
	}
	return t.String()
}

func parseDuration(text string) (Duration, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(number, 10, 31)
		if err != nil || days > uint64(math.MaxInt64/day) {
			return 0, fmt.Errorf("is not a duration: want a number with a unit, such as 30s, 5m or 365d")
		}
		return Duration(time.Duration(days) * day), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("is not a duration: want a number with a unit, such as 30s, 5m or 365d")
	}
	return Duration(d), nil
}

// Size is a number of bytes: 512MiB, 1GiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String returns s in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return "0B"
}

func parseSize(text string) (Size, error) {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		return Size(n * unit.bytes), nil
	}
	return 0, fmt.Errorf("is not a size: want a whole number with a unit, such as 512MiB or 1GiB")
}
