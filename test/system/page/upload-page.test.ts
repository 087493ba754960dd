import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { git, KEY, startUploadService } from '../../support/upload-service.ts';
import { startBrowser, whyNoBrowser } from './chromium.ts';
import { faintTexts } from './contrast.ts';
import { commitElsewhere, drop, inGit, open, openRepository, signIn } from './upload-steps.ts';

const missing = whyNoBrowser();
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };

describe.skipIf(missing !== undefined)(
  `the page for uploads in a browser${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await startBrowser();
    });
    afterAll(() => browser.close());

    it('lets nobody in without a key, and forgets it when told to', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      const { page, faults } = await open(browser, service);
      await signIn(page, 'wrong');
      await expect
        .poll(() => page.locator('#key-problem').innerText())
        .toContain('not a valid personal API key');
      await signIn(page, 'ключ');
      await expect
        .poll(() => page.locator('#key-problem').innerText())
        .toContain('not a valid personal API key');
      await signIn(page);
      await page.getByRole('link', { name: /Plans/ }).waitFor();
      await page.reload();
      await page.getByRole('link', { name: /Plans/ }).waitFor();
      expect(await page.evaluate(() => localStorage.length + document.cookie.length)).toBe(0);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Personal API key').waitFor();
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
      expect(await page.locator('#inside').isHidden()).toBe(true);
      await page.reload();
      expect(await page.getByLabel('Personal API key').isVisible()).toBe(true);
      expect(faults).toEqual([]);
    });

    it('puts what is dropped into a new folder on a new branch, byte for byte', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'sales/old.xlsx': 'old' });
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await page.getByRole('link', { name: 'sales/' }).click();
      await page.getByText('old.xlsx').waitFor();
      await drop(page, { 'budget Ü.xlsx': '\u0001 first', 'b.xlsx': 'second' });
      expect(await page.getByLabel('Message').inputValue()).toBe('Upload budget Ü.xlsx and b.xlsx');
      await page.getByLabel('Folder (optional)').fill('2026 / q1');
      expect(await page.locator('#subfolder-help').innerText()).toBe(
        'The files go into sales/2026/q1 of Plans.',
      );
      await page.getByLabel('a new branch').check();
      await page.getByLabel('Name of the new branch').fill('drafts/anna');
      await page.getByLabel('Message').fill('Two plans\n\nfor review');
      await page.getByRole('button', { name: 'Upload 2 files' }).click();
      await page
        .locator('#result', {
          hasText: '2 files committed to Plans, branch drafts/anna, folder sales/2026/q1',
        })
        .waitFor();
      const commitId = (await inGit(service, 'Plans', 'rev-parse', 'drafts/anna')).trim();
      expect(await page.locator('#result code').innerText()).toBe(commitId.slice(0, 7));
      expect(await inGit(service, 'Plans', 'log', '-1', '--format=%an%n%B', 'drafts/anna')).toBe(
        'Anna Ångström\nTwo plans\n\nfor review\n\n',
      );
      expect(await inGit(service, 'Plans', 'show', 'drafts/anna:sales/2026/q1/budget Ü.xlsx')).toBe(
        '\u0001 first',
      );
      expect(await inGit(service, 'Plans', 'show', 'drafts/anna:sales/old.xlsx')).toBe('old');
      expect(await inGit(service, 'Plans', 'ls-tree', '-r', '--name-only', 'main')).toBe('sales/old.xlsx\n');
      expect(await page.locator('#branch').inputValue()).toBe('drafts/anna');
      expect(await page.locator('#crumbs').innerText()).toMatch(/Plans\s+sales\s+2026\s+q1/);
      expect(faults).toEqual([]);
    });

    it('begins an empty repository, and gives a file back', async () => {
      const service = await startUploadService();
      await service.registry.create('Empty');
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Empty');
      await page.getByText('Nothing has been committed here yet.').waitFor();
      const path = join(service.folder, 'big.xlsx');
      const bytes = Buffer.alloc(12_000_000, 'workbook');
      await writeFile(path, bytes);
      await page.locator('#files').setInputFiles(path);
      expect(await page.getByLabel('Name of the new branch').inputValue()).toBe('main');
      await page.getByRole('button', { name: 'Upload 1 file' }).click();
      await page.locator('#result', { hasText: 'committed to Empty, branch main' }).waitFor();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Download big.xlsx' }).click(),
      ]);
      expect(download.suggestedFilename()).toBe('big.xlsx');
      expect((await readFile(await download.path())).equals(bytes)).toBe(true);
      expect(faults).toEqual([]);
    });

    it('overwrites nothing unseen, and loses nothing of what was dropped', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'a.xlsx': 'one' });
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await drop(page, { 'a.xlsx': 'mine' });
      await page.getByText('Replaces the file of this name.').waitFor();
      await commitElsewhere(service, 'Plans', { 'a.xlsx': 'two', 'new.xlsx': 'new' });
      await page.getByRole('button', { name: 'Upload 1 file' }).click();
      await page.locator('#upload-problem', { hasText: 'changed the branch main meanwhile' }).waitFor();
      await page.locator('#entries', { hasText: 'new.xlsx' }).waitFor();
      expect(await inGit(service, 'Plans', 'show', 'main:a.xlsx')).toBe('two');
      await page.getByRole('button', { name: 'Upload 1 file' }).click();
      await page.locator('#result', { hasText: 'committed' }).waitFor();
      expect(await inGit(service, 'Plans', 'show', 'main:a.xlsx')).toBe('mine');
      await drop(page, { 'a.xlsx': 'mine' });
      await page.getByRole('button', { name: 'Upload 1 file' }).click();
      await page.locator('#upload-problem', { hasText: 'byte for byte' }).waitFor();
      expect(faults).toEqual([]);
    });

    it('says what is too large before it is sent, and tries again after a failure', async () => {
      const service = await startUploadService(100_000);
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'a.xlsx': 'one' });
      const { page } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'Plans');
      await drop(page, { 'large.xlsx': 'x'.repeat(100_001), 'small.xlsx': 'x' });
      await page.getByText('Too large: the service takes files of up to 100 kB.').waitFor();
      await page.getByRole('button', { name: 'Upload 2 files' }).click();
      await page.locator('#upload-problem', { hasText: 'leave the marked files out first' }).waitFor();
      await page.getByRole('button', { name: 'Remove large.xlsx' }).click();
      await page.route('**/files', (route) => route.abort());
      await page.getByRole('button', { name: 'Upload 1 file' }).click();
      await page.locator('#upload-problem', { hasText: 'could not be sent' }).waitFor();
      await page.unroute('**/files');
      await page.getByRole('button', { name: 'Upload 1 file' }).click();
      await page.locator('#result', { hasText: 'committed' }).waitFor();
    });

    it('shows hostile names as text', async () => {
      const service = await startUploadService();
      const name = '<img src=x onerror=alert(1)>';
      await service.registry.create(name);
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, name);
      const file = '"><script>alert(1)<script>&amp;\u202e.xlsx';
      await drop(page, { [file]: 'x' });
      await page.getByLabel('Name of the new branch').fill('<b>&lt;');
      await page.getByRole('button', { name: 'Upload 1 file' }).click();
      await page.locator('#result', { hasText: ', branch <b>&lt;' }).waitFor();
      expect(await page.locator('#entries th[scope=row]').innerText()).toBe(
        file.replace('\u202e', String.raw`\u202e`),
      );
      expect(await page.locator('main img, main script, main b').count()).toBe(0);
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.locator('#entries button').click(),
      ]);
      expect(await readFile(await download.path(), 'utf8')).toBe('x');
      expect(faults).toEqual([]);
    });

    it('shows a repository that is connected elsewhere, and takes no files for it', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'a.xlsx': 'one' });
      const source = join(service.folder, 'source.git');
      await git(service.folder, 'clone', '--quiet', '--bare', service.address('Plans'), source);
      await service.registry.connect({ url: 'https://git.example.com/x/forecast.git', source });
      const { page, faults } = await open(browser, service);
      await signIn(page);
      await openRepository(page, 'forecast');
      await page
        .locator('#external', { hasText: 'connected to https://git.example.com/x/forecast.git' })
        .waitFor();
      await drop(page, { 'b.xlsx': 'x' });
      expect(await page.getByRole('button', { name: /Upload|Choose/ }).count()).toBe(0);
      expect(await page.locator('#queue li').count()).toBe(0);
      expect(faults).toEqual([]);
    });

    it('can be used with the keyboard alone', async () => {
      const service = await startUploadService();
      await service.registry.create('Plans');
      await commitElsewhere(service, 'Plans', { 'sales/a.xlsx': 'one' });
      const { page } = await open(browser, service);
      await page.keyboard.type(KEY);
      await page.keyboard.press('Enter');
      await page.getByRole('link', { name: /Plans/ }).focus();
      await page.keyboard.press('Enter');
      await expect.poll(() => page.evaluate(() => document.activeElement?.id)).not.toBe('key');
      await page.getByRole('link', { name: 'sales/' }).focus();
      await page.keyboard.press('Enter');
      await page.getByText('a.xlsx').waitFor();
      await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('repository-title');
      await page.goBack();
      await page.getByRole('link', { name: 'sales/' }).waitFor();
    });

    for (const [name, options] of Object.entries({
      light: {},
      dark: { colorScheme: 'dark' } as const,
      phone: PHONE,
    }))
      it(`is legible and has room: ${name}`, async () => {
        const service = await startUploadService();
        const long = 'A repository of some department with a long name indeed';
        await service.registry.create(long);
        await commitElsewhere(service, long, { [`${'very-long-name-'.repeat(12)}.xlsx`]: 'one' });
        const { page } = await open(browser, service, options);
        const check = async (): Promise<void> => {
          expect(await page.evaluate(faintTexts)).toEqual([]);
          const sideways = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          expect(sideways).toBe(0);
        };
        await check();
        await signIn(page);
        await openRepository(page, long);
        await drop(page, { [`${'another-long-name-'.repeat(9)}.xlsx`]: 'x' });
        await page.getByLabel('a new branch').check();
        await check();
        const folder = process.env['PAGE_SCREENSHOTS'];
        if (folder !== undefined)
          await page.screenshot({ path: join(folder, `upload-${name}.png`), fullPage: true });
      });
  },
);
