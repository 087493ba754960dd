import { existsSync } from 'node:fs';

import { type Browser, chromium } from 'playwright-core';

/** Its path in Debian. */
const CHROMIUM = '/usr/bin/chromium';

/** Why no page can be opened here; undefined if one can. */
export function whyNoBrowser(): string | undefined {
  return existsSync(CHROMIUM) ? undefined : `${CHROMIUM} is missing (package chromium)`;
}

/** Starts the browser. The caller closes it. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--disable-quic',
      '--no-first-run',
    ],
  });
}
