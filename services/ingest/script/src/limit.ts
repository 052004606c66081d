/** A token bucket: perSecond is the rate, burst the most tokens after a pause. */
export class Bucket {
  private tokens: number;
  private last = 0;

  constructor(
    private readonly perSecond: number,
    private readonly burst: number,
  ) {
    this.tokens = burst;
  }

  /** Takes a token and returns true, or false if there is none. now is in milliseconds; if it goes back, no tokens are added. */
  take(now: number): boolean {
    const passed = Math.max(0, now - this.last);
    this.last = now;
    this.tokens = Math.min(this.burst, this.tokens + (passed / 1000) * this.perSecond);
    if (this.tokens < 1) return false;
    this.tokens--;
    return true;
  }
}
