// Reports violations of the page's Content-Security-Policy.

import type { Config } from './config.ts';
import { MAX_MESSAGE, MAX_URL } from './event.ts';
import { listen } from './guard.ts';
import type { Reporter } from './report.ts';
import { clip } from './text.ts';

/** forbidden is called if the policy does not let this script send. */
export function watchSecurity(reporter: Reporter, config: Config, forbidden: () => void): void {
  listen(document, 'securitypolicyviolation', (e) => {
    const { blockedURI, effectiveDirective, disposition, sourceFile, lineNumber } = e as SecurityPolicyViolationEvent;
    if (blockedURI === config.endpoint && effectiveDirective === 'connect-src') {
      if (disposition === 'enforce') forbidden();
      return;
    }
    const url = /^[a-z][a-z0-9+.-]*:/i.test(blockedURI) ? blockedURI : undefined;
    reporter.report('security', () => {
      const blocked = disposition === 'report' ? 'would block' : 'blocked';
      const position = sourceFile ? ` at ${sourceFile}:${lineNumber}` : '';
      return {
        type: 'csp',
        message: clip(`${effectiveDirective} ${blocked} ${blockedURI || 'a resource'}${position}`, MAX_MESSAGE),
        blocked_url: url && clip(url, MAX_URL),
      };
    });
  });
}
