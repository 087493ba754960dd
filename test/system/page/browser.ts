import { setTimeout as sleep } from 'node:timers/promises';

import type { Browser, BrowserContextOptions } from 'playwright-core';
import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';

import type { DaemonReport } from '../../../src/daemon/status/status-schema.ts';
import { withCommand } from '../../../src/daemon/status/status-service.ts';
import { createRoutes } from '../../../src/daemon/web/routes.ts';
import { createWebServer } from '../../../src/daemon/web/server.ts';
import { inlineSecret } from '../../../src/config/secret.ts';
import { loadPage } from '../../../src/lib/http/page-files.ts';
import { startBrowser, whyNoBrowser } from './chromium.ts';

/** Describes tests with a browser; without one on this machine, they are skipped. */
export function describeInBrowser(title: string, tests: (browser: () => Browser) => void): void {
  const missing = whyNoBrowser();
  const skipped = missing === undefined ? '' : ` (skipped: ${missing})`;
  describe.skipIf(missing !== undefined)(`${title} in a browser${skipped}`, () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await startBrowser();
    });
    afterAll(() => browser.close());
    tests(() => browser);
  });
}

/** Options of opening the page. */
export interface OpenOptions {
  readonly report: DaemonReport;
  readonly token?: string;
  readonly context?: BrowserContextOptions;
  /** The part after the address. */
  readonly query?: string;
  /** Runs in the page before its own code. */
  readonly before?: string;
  /** False if the page is expected to stay empty. */
  readonly waits?: boolean;
}

/** Opens the status page in a browser, with a made-up report from the daemon's web server; both end with the running test. */
export async function openPage(
  browser: Browser,
  { report, token, context: contextOptions, query = '', before, waits = true }: OpenOptions,
) {
  let said = report;
  let asked = 0;
  const status = {
    report: () => {
      asked += 1;
      const age = Date.now() - madeAtMs;
      const targets = said.targets.map(withCommand);
      return Promise.resolve({ ...said, targets, nowMs: said.nowMs + age });
    },
    changes: () => Promise.resolve(said.changes),
    liveness: () => said.liveness,
  };
  const files = await loadPage('daemon/page', 'the page');
  const routes = createRoutes(files, status, () => Promise.resolve({ contentType: 'text/plain', text: '' }));
  const http = { token: token === undefined ? undefined : inlineSecret(token), allowedHosts: [] };
  const makeServer = (): ReturnType<typeof createWebServer> =>
    createWebServer(
      () => http,
      routes,
      null,
      () => {},
    );
  let madeAtMs = Date.now();
  let server = makeServer();
  const { address, port } = await server.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.close());
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...contextOptions });
  onTestFinished(() => context.close());
  const faults: string[] = [];
  const page = await context.newPage();
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('net::ERR_'))
      faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== 'data:' && `${origin}/` !== address) faults.push(`request: ${request.url()}`);
  });
  await page.exposeFunction('noteViolation', (what: string) => faults.push(`policy: ${what}`));
  await page.addInitScript(
    "document.addEventListener('securitypolicyviolation', (e) => noteViolation(e.violatedDirective + ' ' + e.blockedURI));",
  );
  if (before !== undefined) await page.addInitScript(before);
  await page.goto(`${address}${query}`);
  if (waits) await page.locator('#main').waitFor({ state: 'visible' });
  return {
    page,
    address,
    /** Faults of the page: dialogs, errors, violations of the policy, requests to another origin. */
    faults,
    /** Requests of the status so far. */
    asked: () => asked,
    /** Changes the report, and announces it. */
    say: (next: DaemonReport) => {
      said = next;
      madeAtMs = Date.now();
      server.notify();
    },
    /** Ends the daemon. */
    stop: () => server.close(),
    /** Starts it again, at the same address. */
    startAgain: async () => {
      server = makeServer();
      await server.listen({ host: '127.0.0.1', port });
    },
  };
}

/** Gives the page time for unwanted actions. */
export function aWhile(): Promise<void> {
  return sleep(2500);
}
