// Package tcpd reads the Turing Change Point Dataset and scores change points by
// its measures.
//
// The dataset is that of github.com/alan-turing-institute/TCPD: datasets/NAME/
// NAME.json with one series of one or more dimensions, and annotations.json with
// the change points that five people saw in each. The measures are those of van den
// Burg and Williams, "An Evaluation of Change Point Detection Algorithms" (2020).
// The package knows no detector.
package tcpd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
)

// Series is one series with the change points that people saw in it.
type Series struct {
	Name string
	// Values are the observations of each dimension; NaN is a missing one.
	Values [][]float64
	// Annotations are the change points that each person saw, sorted. Observations count
	// from 0.
	Annotations [][]int
}

// Observations returns the number of observations in each dimension.
func (s *Series) Observations() int { return len(s.Values[0]) }

// Read reads the annotated series of a dataset, sorted by name. missing are the series
// that are not in the folder: licences forbid the dataset to contain some, which its user
// has to fetch.
func Read(dataset fs.FS) (all []Series, missing []string, err error) {
	data, err := fs.ReadFile(dataset, "annotations.json")
	if err != nil {
		return nil, nil, fmt.Errorf("read the annotations of TCPD: %w", err)
	}
	annotations, err := parseAnnotations(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read annotations.json: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		data, err := fs.ReadFile(dataset, path.Join("datasets", name, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read series %s: %w", name, err)
		}
		s := Series{Name: name, Annotations: annotations[name]}
		if s.Values, err = parseSeries(data); err != nil {
			return nil, nil, fmt.Errorf("read series %s: %w", name, err)
		}
		for _, points := range s.Annotations {
			if n := len(points); n > 0 && points[n-1] >= s.Observations() {
				return nil, nil, fmt.Errorf("read series %s: a change point at %d of %d", name, points[n-1], s.Observations())
			}
		}
		all = append(all, s)
	}
	return all, missing, nil
}

// parseAnnotations reads the change points of each series, in the order of the
// people's names.
func parseAnnotations(data []byte) (map[string][][]int, error) {
	var raw map[string]map[string][]int
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	all := make(map[string][][]int, len(raw))
	for name, people := range raw {
		if !fs.ValidPath(name) || path.Base(name) != name {
			return nil, fmt.Errorf("%q is no name of a series", name)
		}
		if len(people) == 0 {
			return nil, fmt.Errorf("%s: it has no annotators", name)
		}
		for _, person := range slices.Sorted(maps.Keys(people)) {
			points := slices.Clone(people[person])
			slices.Sort(points)
			if len(points) > 0 && points[0] < 0 {
				return nil, fmt.Errorf("%s: a change point at %d", name, points[0])
			}
			all[name] = append(all[name], points)
		}
	}
	return all, nil
}

// parseSeries reads the observations of each dimension.
func parseSeries(data []byte) ([][]float64, error) {
	var raw struct {
		Observations int `json:"n_obs"`
		Series       []struct {
			Raw []*float64 `json:"raw"`
		} `json:"series"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	if len(raw.Series) == 0 {
		return nil, errors.New("no dimension")
	}
	all := make([][]float64, len(raw.Series))
	for i, dimension := range raw.Series {
		if len(dimension.Raw) != raw.Observations || raw.Observations < 1 {
			return nil, fmt.Errorf("dimension %d has %d observations, n_obs is %d", i, len(dimension.Raw), raw.Observations)
		}
		for _, value := range dimension.Raw {
			if value == nil {
				all[i] = append(all[i], math.NaN())
			} else {
				all[i] = append(all[i], *value)
			}
		}
	}
	return all, nil
}
