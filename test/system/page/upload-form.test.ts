import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { BrowserContextOptions, FileChooser, Page } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';

import { git, KEY, startUploadService, type UploadService } from '../../support/upload-service.ts';
import { describeInBrowser } from './browser.ts';
import { faintTexts } from './contrast.ts';

/** A slow browser opens no chooser: after some seconds, it no longer counts the key press as an act of a person. */
async function chooserAfterSpace(page: Page): Promise<FileChooser> {
  const choosing = page.waitForEvent('filechooser', { timeout: 120_000 });
  const pressing = setInterval(() => void page.keyboard.press('Space'), 15_000);
  await page.keyboard.press('Space');
  return choosing.finally(() => clearInterval(pressing));
}

describeInBrowser('the form for uploads', (browser) => {
  /** Opens the form of a service with the repository Plans. @returns it, and the errors of the page */
  async function open(options: BrowserContextOptions = {}) {
    const service = await startUploadService();
    await service.registry.create('Plans');
    await writeFile(join(service.folder, 'notes.xlsx'), 'no workbook');
    await writeFile(join(service.folder, 'big.bin'), Buffer.alloc(12_000_000, 'workbook'));
    const context = await browser().newContext(options);
    onTestFinished(() => context.close());
    const page = await context.newPage();
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(error.message));
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().includes('status of 401'))
        faults.push(message.text());
    });
    await page.goto(service.origin);
    return { service, page, faults };
  }

  async function shown(service: UploadService, ...args: readonly string[]): Promise<string> {
    const [plans] = service.registry.list();
    const directory = `--git-dir=${service.registry.gitDirectory(plans?.id ?? '')}`;
    return (await git(service.folder, directory, ...args)).said;
  }

  it.each([true, false])(
    'takes files, warns, and keeps what was typed; with scripts: %s',
    async (javaScriptEnabled) => {
      const { service, page, faults } = await open({ javaScriptEnabled });
      await page.getByLabel('Personal API key').fill('wrong');
      await page.getByLabel('Repository').fill('Plans');
      await page.getByLabel('Branch').fill('drafts');
      await page.getByLabel('Folder').fill('q1');
      await page.getByLabel('Message').fill('Two <files>');
      const files = ['notes.xlsx', 'big.bin'].map((name) => join(service.folder, name));
      await page.getByLabel('Files').setInputFiles(files);
      await page.getByRole('button', { name: 'Upload' }).click();
      await page.locator('#result.failed', { hasText: 'the key is not valid' }).waitFor();
      expect(await page.getByLabel('Folder').inputValue()).toBe('q1');
      expect(await page.getByLabel('Message').inputValue()).toBe('Two <files>');
      await page.getByLabel('Personal API key').fill(KEY);
      if (!javaScriptEnabled) await page.getByLabel('Files').setInputFiles(files);
      await page.getByRole('button', { name: 'Upload' }).click();
      await page.locator('#result.done', { hasText: 'Warning: q1/notes.xlsx' }).waitFor();
      expect(await shown(service, 'log', '--format=%an %s', 'drafts')).toBe('Anna Ångström Two <files>\n');
      expect(await shown(service, 'cat-file', '-s', 'drafts:q1/big.bin')).toBe('12000000\n');
      expect(faults).toEqual([]);
    },
  );

  it('works with the keyboard, and reads out how it ended', async () => {
    const { service, page, faults } = await open();
    for (const text of [KEY, 'Plans', '', '', 'By hand']) {
      await page.keyboard.press('Tab');
      await page.keyboard.type(text);
    }
    await page.keyboard.press('Tab');
    await page.locator('input[type=file]:focus').waitFor();
    await (await chooserAfterSpace(page)).setFiles(join(service.folder, 'big.bin'));
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('#result.done', { hasText: 'big.bin' }).waitFor();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('result');
    expect(await page.locator('#result').getAttribute('role')).toBe('status');
    expect(await page.getByLabel('Files').inputValue()).toBe('');
    expect(await shown(service, 'log', '--format=%s', 'main')).toBe('By hand\n');
    expect(faults).toEqual([]);
  });

  it.each(['light', 'dark'] as const)('fits a phone, and can be read: %s', async (colorScheme) => {
    const { page } = await open({ colorScheme, viewport: { width: 320, height: 640 } });
    const isWide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    expect([isWide, await page.evaluate(faintTexts)]).toEqual([false, []]);
  });
});
