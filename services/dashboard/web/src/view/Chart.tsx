// A chart of uPlot, which is loaded with the first chart.

import { useEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';

import { isDark } from '../state/settings.ts';

export type Colours = (name: string) => string;

interface Props {
  readonly data: uPlot.AlignedData;
  /** Options without width and height; called again when the colours or the optionsKey change. */
  readonly options: (colour: Colours, plot: typeof uPlot) => Omit<uPlot.Options, 'width' | 'height'>;
  /** Changes when the options do. */
  readonly optionsKey: string;
  readonly height: number;
  /** The description of the chart for screen readers. */
  readonly label: string;
}

export function Chart({ data, options, optionsKey, label, height }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const newest = useRef({ data, options });
  newest.current = { data, options };
  const dark = isDark.value;

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    let unmounted = false;
    let resize: ResizeObserver | undefined;
    void import('uplot').then(({ default: Plot }) => {
      if (unmounted) return;
      const width = () => Math.max(200, element.clientWidth);
      const created = new Plot(
        { ...newest.current.options(colours(element), Plot), width: width(), height },
        newest.current.data,
        element,
      );
      chart.current = created;
      resize = new ResizeObserver(() => {
        if (created.width !== width()) created.setSize({ width: width(), height });
      });
      resize.observe(element);
    });
    return () => {
      unmounted = true;
      resize?.disconnect();
      chart.current?.destroy();
      chart.current = undefined;
    };
    // The style sheet of the theme has the colours.
  }, [optionsKey, height, dark]);

  useEffect(() => {
    chart.current?.setData(data);
  }, [data]);

  return <div ref={box} class="chart" role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

/** The colours of the style sheet, in the format of a canvas. */
function colours(element: Element): Colours {
  const probe = document.createElement('span');
  return (name) => {
    probe.style.color = `var(--${name})`;
    element.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
}
