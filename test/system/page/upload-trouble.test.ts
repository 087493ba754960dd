import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { KEY, startUploadService } from '../../support/upload-service.ts';
import { startBrowser, whyNoBrowser } from './chromium.ts';
import { commitElsewhere, drop, inGit, open, openRepository, signIn } from './upload-steps.ts';

const missing = whyNoBrowser();

/** Holds requests up until it is told to let them go. */
async function holdUp(page: Page, pattern: string): Promise<{ count: () => number; letGo: () => void }> {
  const waiting: (() => void)[] = [];
  let count = 0;
  let isOpen = false;
  await page.route(pattern, async (route) => {
    count += 1;
    if (!isOpen) await new Promise<void>((resolve) => waiting.push(resolve));
    await route.continue().catch(() => {});
  });
  return {
    count: () => count,
    letGo: () => {
      isOpen = true;
      for (const go of waiting) go();
    },
  };
}

/** Drops what lies on the disk, folders as such. */
async function dropFromDisk(page: Page, paths: readonly string[]): Promise<void> {
  const session = await page.context().newCDPSession(page);
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
    await session.send('Input.dispatchDragEvent', {
      type,
      x: 600,
      y: 300,
      data: { items: [], files: [...paths], dragOperationsMask: 1 },
    });
}

/** Makes a folder `twin` with a file in it. */
async function makeFolder(parent: string): Promise<string> {
  const folder = join(parent, 'twin');
  await mkdir(folder);
  await writeFile(join(folder, 'a.xlsx'), 'a');
  return folder;
}

const button = (page: Page, name: string): ReturnType<Page['getByRole']> =>
  page.getByRole('button', { name });
const problem = (page: Page, text: string): Promise<void> =>
  page.locator('#upload-problem', { hasText: text }).waitFor();
const result = (page: Page, text: string): Promise<void> =>
  page.locator('#result', { hasText: text }).waitFor();

describe.skipIf(missing !== undefined)(
  `the page for uploads when things go wrong${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await startBrowser();
    });
    afterAll(() => browser.close());

    it('goes on with an upload while another repository is looked at', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await service.registry.create('Budgets');
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      const files = await holdUp(page, '**/files');
      await drop(page, { 'a.xlsx': 'a', 'b.xlsx': 'b', 'c.xlsx': 'c' });
      await button(page, 'Upload 3 files').click();
      await expect.poll(files.count).toBe(3);
      await openRepository(page, 'Budgets');
      expect(await page.locator('#progress').innerText()).toBe('Plans: Sent 0 of 3 files');
      files.letGo();
      await result(page, '3 files committed to Plans, branch main: commit');
      expect(await page.locator('#repository-title').innerText()).toBe('Budgets');
      expect(await inGit(service, 'Plans', 'ls-tree', '--name-only', 'main')).toBe(
        'a.xlsx\nb.xlsx\nc.xlsx\n',
      );
      expect(await inGit(service, 'Budgets', 'for-each-ref')).toBe('');
      expect(await page.locator('#queue li').count()).toBe(0);
      await page.getByRole('link', { name: 'Look there' }).click();
      await page.getByText('b.xlsx').waitFor();
      expect(faults).toEqual([]);
    });

    it('says of which repository an upload failed, and sends nothing of it to another', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await service.registry.create('Budgets');
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await page.route('**/commits', (route) => route.fulfill({ status: 403, body: 'no' }));
      const files = await holdUp(page, '**/files');
      await drop(page, { 'a.xlsx': 'a' });
      await button(page, 'Upload 1 file').click();
      await expect.poll(files.count).toBe(1);
      await openRepository(page, 'Budgets');
      files.letGo();
      await problem(page, 'Upload to Plans: The service answered with the error 403. Nothing was changed');
      await page.unroute('**/commits');
      await button(page, 'Upload 1 file').click();
      await result(page, 'committed to Budgets, branch main');
      expect(await inGit(service, 'Plans', 'for-each-ref')).toBe('');
    });

    it('finds a commit whose answer was lost', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'plans/a ü.xlsx': 'one' });
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await page.route('**/commits', async (route) => {
        await route.fetch();
        await route.abort('connectionreset');
      });
      await drop(page, { 'a ü.xlsx': 'two', 'b.xlsx': 'b' });
      await page.locator('#subfolder').fill('plans');
      await page.getByText('Replaces the file of this name.').waitFor();
      await button(page, 'Upload 2 files').click();
      await result(page, '2 files committed to Plans, branch main, folder plans: commit');
      const commitId = (await inGit(service, 'Plans', 'rev-parse', 'main')).trim();
      expect(await page.locator('#result code').getAttribute('title')).toBe(commitId);
    });

    it('does not say that nothing was changed when it does not know', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await page.route('**/commits', (route) => route.abort('connectionreset'));
      await drop(page, { 'a.xlsx': 'a' });
      await button(page, 'Upload 1 file').click();
      await problem(page, 'The commit is not there so far, and your files are still listed');
      await page.unroute('**/commits');
      await page.route('**/commits', async (route) => {
        await route.fetch();
        await page.route('**/branches', (asked) => asked.abort());
        await route.fulfill({ status: 504, body: '' });
      });
      await button(page, 'Upload 1 file').click();
      await problem(page, 'It is not known whether the commit was made: look at Plans, branch main');
      await page.unroute('**/branches');
      await page.unroute('**/commits');
      await page.route('**/commits', async (route) => {
        await commitElsewhere(service, 'Plans', { 'other.xlsx': 'o' });
        await route.fulfill({ status: 502, body: '' });
      });
      await page.reload();
      await openRepository(page, 'Plans');
      await drop(page, { 'z.xlsx': 'z' });
      await button(page, 'Upload 1 file').click();
      await problem(page, 'The branch has changed meanwhile, and it is not known whether by this upload');
      await page.locator('#entries', { hasText: 'other.xlsx' }).waitFor();
    });

    it('stops an upload, and tries again', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      const files = await holdUp(page, '**/files');
      await drop(page, { 'a.xlsx': 'a', 'b.xlsx': 'b' });
      await button(page, 'Upload 2 files').click();
      await expect.poll(files.count).toBe(2);
      await button(page, 'Stop').click();
      await problem(page, 'Stopped. Nothing was changed, and your files are still listed.');
      files.letGo();
      await button(page, 'Upload 2 files').click();
      await result(page, '2 files committed to Plans');
      await page.unroute('**/files');
      const commits = await holdUp(page, '**/commits');
      await drop(page, { 'c.xlsx': 'c' });
      await button(page, 'Upload 1 file').click();
      await expect.poll(commits.count).toBe(1);
      await button(page, 'Stop').click();
      await problem(page, 'Stopped. The commit is not there so far');
    });

    it('says nothing of an upload to whoever signed out during it', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      const files = await holdUp(page, '**/files');
      await drop(page, { 'a.xlsx': 'a' });
      await button(page, 'Upload 1 file').click();
      await expect.poll(files.count).toBe(1);
      await button(page, 'Sign out').click();
      files.letGo();
      await page.unroute('**/files');
      await signIn(page);
      await openRepository(page, 'Plans');
      expect(await page.locator('#key-problem').textContent()).toBe('');
      expect(await page.locator('#queue li').count()).toBe(0);
      await drop(page, { 'b.xlsx': 'b' });
      await button(page, 'Upload 1 file').click();
      await result(page, '1 file committed to Plans');
      expect(await inGit(service, 'Plans', 'ls-tree', '--name-only', 'main')).toBe('b.xlsx\n');
      expect(faults).toEqual([]);
    });

    it('replaces no file before it has said so', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'plans/a.xlsx': 'one', 'b.xlsx': 'b' });
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await page.clock.install();
      await drop(page, { 'a.xlsx': 'mine', 'new.xlsx': 'n' });
      await page.locator('#subfolder').fill('plans');
      // The clock stands still: nothing is asked before the press of the button.
      await button(page, 'Upload 2 files').click();
      await problem(
        page,
        '1 file is there already and is marked in the list now. Press Upload again to replace it.',
      );
      expect(await inGit(service, 'Plans', 'show', 'main:plans/a.xlsx')).toBe('one');
      expect(await page.locator('#queue li', { hasText: 'Replaces' }).innerText()).toContain('a.xlsx');
      await button(page, 'Upload 2 files').click();
      await result(page, '2 files committed');
      expect(await inGit(service, 'Plans', 'show', 'main:plans/a.xlsx')).toBe('mine');
      expect(faults).toEqual([]);
    });

    it('keeps the branch that a new one starts with while it asks back', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'a.xlsx': 'old' });
      await inGit(service, 'Plans', 'branch', 'old', 'main');
      await commitElsewhere(service, 'Plans', { 'b.xlsx': 'new' });
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await page.clock.install();
      await drop(page, { 'a.xlsx': 'mine' });
      await page.getByLabel('a new branch').check();
      await page.getByLabel('Name of the new branch').fill('x');
      await page.getByLabel('It starts with').selectOption('old');
      await button(page, 'Upload 1 file').click();
      await problem(page, 'Press Upload again to replace it.');
      expect(await page.getByLabel('It starts with').inputValue()).toBe('old');
      await button(page, 'Upload 1 file').click();
      await result(page, '1 file committed to Plans, branch x');
      expect(await inGit(service, 'Plans', 'ls-tree', '--name-only', 'x')).toBe('a.xlsx\n');
      expect(await inGit(service, 'Plans', 'show', 'x:a.xlsx')).toBe('mine');
    });

    it('does not hold to what the service said of other files', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await dropFromDisk(page, [await makeFolder(service.folder)]);
      await drop(page, { twin: 'a file in the way' });
      await page.locator('#bad').waitFor();
      await page.clock.install();
      await page.getByRole('button', { name: 'Remove twin', exact: true }).click();
      await button(page, 'Upload 1 file').click();
      await result(page, '1 file committed');
      expect(await inGit(service, 'Plans', 'ls-tree', '-r', '--name-only', 'main')).toBe('twin/a.xlsx\n');
    });

    it('asks before it sends, marks what is wrong, and leaves it out when told to', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'sales/a.xlsx': 'one' });
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      const files = await holdUp(page, '**/files');
      await drop(page, { sales: 'x', '.git': 'x', 'ok.xlsx': 'ok' });
      await page.locator('#bad', { hasText: '2 files cannot be uploaded: the list says why.' }).waitFor();
      await page.locator('#queue li', { hasText: 'It would take the place of a folder.' }).waitFor();
      await button(page, 'Upload 3 files').click();
      await problem(page, 'Nothing was sent: leave the marked files out first.');
      await button(page, 'Leave them out').click();
      await page.getByLabel('a new branch').check();
      await page.getByLabel('Name of the new branch').fill('no good');
      await button(page, 'Upload 1 file').click();
      await problem(page, 'The branch name "no good" holds a space');
      await page.getByLabel('Name of the new branch').fill('main/x');
      await button(page, 'Upload 1 file').click();
      await problem(page, 'No branch main/x can be beside the branch main.');
      expect(files.count()).toBe(0);
      files.letGo();
      await page.getByLabel('Name of the new branch').fill('x');
      await button(page, 'Upload 1 file').click();
      await result(page, '1 file committed to Plans, branch x: commit');
      expect(faults).toEqual([]);
    });

    it('takes dropped files and folders, and a working copy without its folder .git', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      const copy = join(service.folder, 'copy');
      await mkdir(join(copy, '.git', 'objects'), { recursive: true });
      await mkdir(join(copy, 'deep'));
      await writeFile(join(copy, '.git', 'HEAD'), 'ref: refs/heads/main\n');
      await writeFile(join(copy, 'deep', 'a.xlsx'), 'a');
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      const file = join(service.folder, 'b.xlsx');
      await writeFile(file, 'b');
      await dropFromDisk(page, [copy, file]);
      await page.getByText('Folders with the name .git were left out').waitFor();
      expect(await page.locator('#queue .name').allInnerTexts()).toEqual(['copy/deep/a.xlsx', 'b.xlsx']);
      await button(page, 'Upload 2 files').click();
      await result(page, '2 files committed');
      expect(await inGit(service, 'Plans', 'show', 'main:copy/deep/a.xlsx')).toBe('a');
    });

    it('sends several files at once, and keeps the button in reach of a thousand', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      const files = await holdUp(page, '**/files');
      await drop(
        page,
        Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`${index}.xlsx`, 'x'])),
      );
      const top = await button(page, 'Upload 1000 files').evaluate((it) => it.getBoundingClientRect().top);
      expect(top).toBeLessThan(1500);
      await page.evaluate(() => {
        const counted = window as unknown as { drawn: number };
        counted.drawn = 0;
        const watch = new MutationObserver((changes) => {
          counted.drawn += changes.length;
        });
        watch.observe(document.getElementById('queue') ?? document, { childList: true });
      });
      await button(page, 'Upload 1000 files').click();
      await expect.poll(files.count).toBe(4);
      await button(page, 'Stop').click();
      await problem(page, 'Stopped.');
      files.letGo();
      // No row was made anew.
      expect(await page.evaluate(() => (window as unknown as { drawn: number }).drawn)).toBe(0);
    });

    it('gives the address of a repository whose name ends in .git by its id, and shows branches that turn text around', async () => {
      const service = await startUploadService();
      const { id } = await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'a.xlsx': 'a' });
      await inGit(service, 'Plans', 'branch', 'x\u202egnp', 'main');
      const { page } = await open(browser, service);
      await page.route('**/uploads/repositories', async (route) => {
        const answer = await route.fetch();
        const body = (await answer.text()).replaceAll('"Plans"', '"Plans.git"');
        await route.fulfill({ response: answer, body });
      });
      await signIn(page, KEY);
      await openRepository(page, 'Plans.git');
      expect(await page.locator('#heading code').innerText()).toBe(`${service.origin}git/${id}.git`);
      expect(await page.locator('#start option').allTextContents()).toContain(
        String.raw`what is on x\u202egnp`,
      );
    });
  },
);
