/** A token bucket: a rate per second, and a burst after a pause. */
export class Bucket {
  private tokens: number;
  private last = 0;

  constructor(
    private readonly perSecond: number,
    private readonly burst: number,
  ) {
    this.tokens = burst;
  }

  /** Takes a token, at a time in milliseconds. A clock that was set back gives none. */
  take(now: number): boolean {
    const passed = Math.max(0, now - this.last);
    this.last = now;
    this.tokens = Math.min(this.burst, this.tokens + (passed / 1000) * this.perSecond);
    if (this.tokens < 1) return false;
    this.tokens--;
    return true;
  }
}
