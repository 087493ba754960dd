import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';

import { git, KEY, type UploadService } from '../../support/upload-service.ts';

/** The page for uploads in a browser. */
export interface Opened {
  readonly page: Page;
  /** What the page did that it must not: dialogs, errors, violations of the policy, requests to another origin. */
  readonly faults: string[];
}

/** Opens the page; it ends with the running test. */
export async function open(
  browser: Browser,
  { origin }: UploadService,
  options: BrowserContextOptions = {},
): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('dialog', (dialog) => {
    if (dialog.type() !== 'beforeunload') faults.push(`dialog: ${dialog.message()}`);
    void dialog.accept();
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    if (message.type() === 'error' && !/status of (?:401|404|409)|net::ERR_/.test(text))
      faults.push(`console: ${text}`);
  });
  page.on('request', (request) => {
    const { protocol, origin: asked } = new URL(request.url());
    if (!['data:', 'blob:'].includes(protocol) && `${asked}/` !== origin)
      faults.push(`request: ${request.url()}`);
  });
  await page.goto(origin);
  return { page, faults };
}

/** Signs in by hand. */
export async function signIn(page: Page, key = KEY): Promise<void> {
  await page.getByLabel('Personal API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** Goes to a repository by its link. */
export async function openRepository(page: Page, name: string): Promise<void> {
  await page.locator('.repositories a', { hasText: name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

/** Drops files as a hand would, on the middle of the page. */
export async function drop(page: Page, files: Readonly<Record<string, string>>): Promise<void> {
  const transfer = await page.evaluateHandle((all) => {
    const made = new DataTransfer();
    for (const [name, content] of Object.entries(all)) made.items.add(new File([content], name));
    return made;
  }, files);
  await page.dispatchEvent('body', 'dragover', { dataTransfer: transfer });
  await page.dispatchEvent('body', 'drop', { dataTransfer: transfer });
}

/** What git says in a bare repository of the service. */
export async function inGit(
  service: UploadService,
  name: string,
  ...args: readonly string[]
): Promise<string> {
  const id = service.registry.list().find((repository) => repository.name === name)?.id ?? '';
  const { said } = await git(service.folder, `--git-dir=${service.registry.gitDirectory(id)}`, ...args);
  return said;
}

/** Commits through git, as somebody else does meanwhile. */
export async function commitElsewhere(
  service: UploadService,
  name: string,
  files: Record<string, string>,
): Promise<void> {
  const work = join(service.folder, `work-${crypto.randomUUID()}`);
  await git(service.folder, 'clone', '--quiet', service.address(encodeURIComponent(name)), work);
  await git(work, 'checkout', '--quiet', '-B', 'main');
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(work, path, '..'), { recursive: true });
    await writeFile(join(work, path), content);
  }
  await git(work, 'add', '--all');
  await git(work, 'commit', '--quiet', '--message', 'elsewhere');
  expect(await git(work, 'push', '--quiet', 'origin', 'main')).toEqual({ code: 0, said: '' });
}
