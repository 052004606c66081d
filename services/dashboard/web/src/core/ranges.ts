// The known sequences of a stream, as ranges. A sequence is known if its alert
// was read, or if the stream has no alert with it.

type Range = [low: number, high: number];

export class SequenceRanges {
  private ranges: Range[] = []; // ascending, never touching

  /** The highest known sequence, or 0. */
  get last(): number {
    return this.ranges.at(-1)?.[1] ?? 0;
  }

  has(seq: number): boolean {
    return this.ranges.some(([low, high]) => low <= seq && seq <= high);
  }

  /** Adds a range of known sequences. */
  add(low: number, high: number): void {
    if (low > high) return;
    const newest = this.ranges.at(-1);
    if (newest !== undefined && low === newest[1] + 1) {
      newest[1] = high; // nearly all live alerts
      return;
    }
    const merged: Range = [low, high];
    const rest = this.ranges.filter((r) => {
      if (r[1] < merged[0] - 1 || r[0] > merged[1] + 1) return true;
      merged[0] = Math.min(merged[0], r[0]);
      merged[1] = Math.max(merged[1], r[1]);
      return false;
    });
    rest.push(merged);
    this.ranges = rest.sort((a, b) => a[0] - b[0]);
  }

  /** The newest unknown range, from floor to below a known sequence. */
  newestGap(floor: number): Range | undefined {
    for (let i = this.ranges.length - 1; i >= 0; i--) {
      const [low] = this.ranges[i] as Range;
      if (low <= floor) return undefined;
      const below = this.ranges[i - 1]?.[1] ?? 0;
      const from = Math.max(floor, below + 1);
      if (from < low) return [from, low - 1];
    }
    return undefined;
  }
}
