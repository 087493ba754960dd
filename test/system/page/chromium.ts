import { existsSync } from 'node:fs';

import { type Browser, chromium } from 'playwright-core';

/** Where Debian has it. */
const CHROMIUM = '/usr/bin/chromium';

/** Why no page can be opened here; undefined when one can. */
export function whyNoBrowser(): string | undefined {
  return existsSync(CHROMIUM) ? undefined : `${CHROMIUM} is missing (package chromium)`;
}

/** Starts the browser; whoever starts it closes it. */
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
