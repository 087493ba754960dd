import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';

import type { DaemonReport } from '../../../src/daemon/status/status-schema.ts';
import type { TargetStatus } from '../../../src/app/target-status.ts';
import { MINUTE_MS, NOW_MS } from '../../support/builders.ts';
import {
  ordinaryReport,
  failingTarget,
  heldTarget,
  HOSTILE_NAMES,
  manyTargets,
  ordinaryTargets,
  targetStatus,
  troubledReport,
} from '../../support/report.ts';
import { aWhile, describeInBrowser, type OpenOptions, openPage } from './browser.ts';
import { faintTexts } from './contrast.ts';

const STUCK = { isAlive: false, state: 'stuck', silentMs: 9e5 } as const;
const SECRET = 'secret-of-the-test';
const WITH_TOKEN = { token: SECRET, context: { httpCredentials: { username: 'any', password: SECRET } } };
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };

function firstRows(page: Page, count: number): Promise<string[]> {
  return page.evaluate(
    (most) =>
      [...document.querySelectorAll('tr.target .row-toggle')]
        .slice(0, most)
        .map((button) => (button as HTMLElement).title),
    count,
  );
}

function sideways(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

describeInBrowser('the status page', (browser) => {
  /** Opens the page with a report that differs from an ordinary one in some fields. */
  const open = (
    fields: Parameters<typeof ordinaryReport>[0] = {},
    options: Omit<OpenOptions, 'report'> = {},
  ) => openPage(browser(), { report: ordinaryReport(fields), ...options });

  it('says at a glance that all is well, and loads nothing from elsewhere', async () => {
    const { page, faults } = await open();
    expect(await page.locator('h1').innerText()).toBe('Ready');
    expect(await page.title()).toBe('Ready – workbook-mirror');
    expect(await page.locator('#icon').getAttribute('href')).toContain(encodeURIComponent('#12805c'));
    expect(await page.locator('#summary').innerText()).toContain('https://workbooks.example.com/api');
    expect(await page.locator('#summary').innerText()).toContain('/var/lib/workbook-mirror');
    expect(await page.locator('#pass').innerText()).toMatch(/Next pass\s+\d+:\d\d/);
    expect(await page.locator('#attention').isHidden()).toBe(true);
    expect(await page.locator('tr.target').count()).toBe(24);
    expect(await page.locator('#contact').innerText()).toBe('Live');
    expect(faults).toEqual([]);
  });

  it('cuts no name at 1280 px, with trouble below it or without', async () => {
    const long = [
      'git.example.com/corporate-finance/treasury/cash-planning.git',
      'feature/q3-liquidity-by-entity-and-currency-for-the-board-and-the-auditors',
    ] as const;
    const targets = manyTargets(5000).map((target, index) => {
      const [repository, branch] = long;
      return Object.assign(target, { repository, branch, target: `${repository}/${branch}/${index}` });
    });
    const { page } = await open({ targets });
    const found = await page.evaluate(() => ({
      cut: [...document.querySelectorAll('tr.target :is(.row-toggle, .name, .branch, td)')]
        .filter((node) => node.scrollWidth > node.clientWidth)
        .map((node) => node.textContent),
      troubles: [...document.querySelectorAll('.row-trouble')].map((node) => {
        const name = node.parentElement?.querySelector('.branch')?.getBoundingClientRect();
        return node.getBoundingClientRect().top >= (name?.bottom ?? Number.NaN) - 1;
      }),
    }));
    expect(found.cut).toEqual([]);
    expect(new Set(found.troubles)).toEqual(new Set([true]));
  });

  it('shows 10,000 targets in pages, the worst first, and every one by the keys', async () => {
    const targets = manyTargets(10_000);
    const { page, faults } = await open({ targets });
    expect(await page.locator('tr.target').count()).toBe(100);
    expect(await page.locator('#targets-count').innerText()).toBe('10,000');
    expect(await page.locator('tr.target .column-state').first().innerText()).not.toBe('fresh');
    await page.locator('#targets-head button', { hasText: 'Target' }).press('Enter');
    expect(await firstRows(page, 1)).toEqual(['github.com/acme/repository-0000.git/main']);
    for (let turn = 0; turn < 3; turn += 1)
      await page.locator('#pages button', { hasText: 'Next' }).press('Enter');
    expect(await page.locator('#pages').innerText()).toContain('301 to 400');
    expect(await firstRows(page, 1)).toEqual(['github.com/acme/repository-0300.git/main']);
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Next');
    await page.reload();
    await page.locator('tr.target').first().waitFor();
    expect(await firstRows(page, 1)).toEqual(['github.com/acme/repository-0300.git/main']);
    await page.locator('#search').fill('repository-9999');
    expect(await firstRows(page, 2)).toEqual(['github.com/acme/repository-9999.git/main']);
    expect(await page.locator('#pages').isHidden()).toBe(true);
    expect(faults).toEqual([]);
  });

  it('keeps focus, search and open details while it is updated', async () => {
    const targets = manyTargets(300);
    const { page, say } = await open({ targets }, { query: '?search=repository-01' });
    const row = page.locator('.row-toggle').nth(5);
    const name = await row.getAttribute('title');
    await row.press('Enter');
    const changed = manyTargets(300).map((target) => Object.assign(target, { files: 7777 }));
    say(ordinaryReport({ targets: changed }));
    await page.locator('tr.detail', { hasText: '7,777 files' }).waitFor();
    expect(await page.evaluate(() => (document.activeElement as HTMLElement).title)).toBe(name);
    expect(await page.locator('#search').inputValue()).toBe('repository-01');
  });

  it('lists what changed last, by whom, and shows its target', async () => {
    const [{ target } = { target: '' }] = ordinaryTargets();
    const change = { change: 'changed', version: 'v', author: 'anna', message: 'm' } as const;
    const file = { ...change, path: 'Budget.xlsx' };
    const changes = [{ target, atMs: NOW_MS, kind: 'changed', files: 3, first: [file] } as const];
    const { page } = await open({ changes });
    expect(await page.locator('#changed li').innerText()).toContain('changed Budget.xlsx and 2 more, anna');
    const first = page.locator('#changed button').first();
    expect(await first.innerText()).toBe(target);
    await first.click();
    expect(await firstRows(page, 9)).toEqual([target]);
  });

  it('shows times with their zone, and a remedy for drift', async () => {
    const drift = { added: 1, missing: 0, modified: 0, first: 'a', sinceMs: NOW_MS };
    const targets = [targetStatus({ state: 'drifted', drift })];
    const context = { timezoneId: 'Asia/Tokyo', locale: 'en-GB' };
    const { page } = await open({ targets }, { context });
    expect(await page.locator('#pass').innerText()).toMatch(/GMT\+9|JST/);
    expect(await page.locator('#problems').innerText()).toContain('`workbook-mirror poll` does so now');
  });

  it('shows a state of each tone in words, in the title and in the icon, as it changes', async () => {
    const { page, say, faults } = await open();
    const icons = new Set<string | null>();
    const late = [targetStatus({ state: 'stale', isStale: true })];
    const states: [string, DaemonReport][] = [
      ['Stale', ordinaryReport({ targets: late })],
      ['Stuck', ordinaryReport({ liveness: STUCK })],
      ['Starting', ordinaryReport({ live: { hasFinishedPass: false, passes: [] } })],
      ['Ready', ordinaryReport()],
    ];
    for (const [word, next] of states) {
      say(next);
      await page.locator('h1', { hasText: new RegExp(`^${word}$`) }).waitFor();
      expect(await page.title()).toMatch(new RegExp(`^${word}`));
      expect(await page.locator('#announcer').innerText()).toContain(word);
      icons.add(await page.locator('#icon').getAttribute('href'));
    }
    expect(icons.size).toBe(4);
    expect(faults).toEqual([]);
  });

  it('shows hostile names as text, without any effect', async () => {
    const { page, faults } = await openPage(browser(), { report: troubledReport() });
    const buttons = page.locator('.row-toggle');
    for (let index = 0; index < 8; index += 1) await buttons.nth(index).click();
    await page.locator('#notices-more').click();
    const found = await page.evaluate(() => ({
      injected: document.querySelectorAll(
        'img, iframe, object, svg[onload], [onerror], style, [style*="url"]',
      ).length,
      scripts: [...document.scripts].map((script) => script.getAttribute('src')),
      hidden: /[\u202A-\u202E\u2066-\u2069]/.test(document.body.textContent),
      titles: /[\u202A-\u202E]/.test(
        [...document.querySelectorAll('[title]')].map((e) => e.getAttribute('title')).join(''),
      ),
    }));
    const scripts = ['page/daemon/page/page.js'];
    expect(found).toEqual({ injected: 0, scripts, hidden: false, titles: false });
    const [image] = HOSTILE_NAMES;
    expect(await page.locator('#notices').innerText()).toContain(image);
    expect(await page.locator('#problems').innerText()).toContain(
      `workbook-mirror approve '"><script>alert(1)</script>/gone'`,
    );
    expect(faults).toEqual([]);
  });

  it.each([
    ['a desk', {}],
    ['a phone', PHONE],
  ])('needs no sideways scrolling on %s, with any problems', async (_, context) => {
    const { page } = await openPage(browser(), { report: troubledReport(), context });
    await page.locator('.row-toggle').nth(3).click();
    expect(await sideways(page)).toBe(0);
    const shares = await page
      .locator('#targets-head .column-target')
      .evaluate((cell) => cell.getBoundingClientRect().width / (cell.parentElement?.clientWidth ?? 0));
    expect(shares).toBeGreaterThan(0.4);
    const branch = page.locator('.branch', { hasText: /^main$/ }).first();
    expect(await branch.evaluate((node) => node.scrollWidth - node.clientWidth)).toBe(0);
  });

  it('sorts by every column, with the mouse and with the keys', async () => {
    const { page } = await open();
    const columns = page.locator('#targets-head th');
    expect(await columns.count()).toBe(6);
    expect(await columns.evaluateAll((cells) => cells.map((cell) => cell.getAttribute('aria-sort')))).toEqual(
      [null, 'ascending', null, null, null, null],
    );
    for (let index = 0; index < 6; index += 1) {
      const cell = columns.nth(index);
      await cell.locator('button').click();
      const first = await cell.getAttribute('aria-sort');
      await cell.locator('button').press('Enter');
      expect(new Set([first, await cell.getAttribute('aria-sort')])).toEqual(
        new Set(['ascending', 'descending']),
      );
      expect(await page.locator('#targets-head [aria-sort]').count()).toBe(1);
    }
  });

  it('finds targets by typed text, and keeps the choice in the address', async () => {
    const targets = [...ordinaryTargets(), failingTarget({ repository: 'Payments' })];
    const { page, address } = await open({ targets });
    await page.keyboard.press('/');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('search');
    await page.keyboard.type('plan draft/');
    expect(await page.locator('#targets-none').innerText()).toBe('No target matches “plan draft/”.');
    await page.keyboard.press('Backspace');
    expect(await firstRows(page, 9)).toEqual(['github.com/acme/plan.git/draft']);
    expect(await page.locator('#targets-count').innerText()).toBe('1 of 25');
    await page.reload();
    await page.locator('tr.target').waitFor();
    expect(await page.locator('#search').inputValue()).toBe('plan draft');
    expect(await firstRows(page, 9)).toEqual(['github.com/acme/plan.git/draft']);
    await page.locator('#search').press('Escape');
    expect(page.url()).toBe(address);
    const failing = page.locator('.filter', { hasText: 'failing' });
    await failing.click();
    expect(await failing.getAttribute('aria-pressed')).toBe('true');
    expect(await firstRows(page, 9)).toEqual(['Payments/main']);
  });

  it('shows the targets of a problem', async () => {
    const targets = [...ordinaryTargets(), failingTarget({ repository: 'Payments' })];
    const { page } = await open({ targets });
    await page.locator('.problem', { hasText: 'Payments/main fails' }).locator('.show').click();
    expect(await firstRows(page, 9)).toEqual(['Payments/main']);
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('targets');
  });

  it('keeps the focus on a control of a list that changes', async () => {
    const [a, b] = ['a', 'b'].map((repository) => heldTarget({ repository }));
    if (a === undefined || b === undefined) throw new Error('no targets');
    const { page, say } = await open({ targets: [b] });
    await page.locator('.problem .show').focus();
    say(ordinaryReport({ targets: [a, b] }));
    await page.locator('.problem').nth(1).waitFor();
    expect(
      await page.evaluate(
        () => document.activeElement?.closest('.problem')?.querySelector('h3')?.textContent,
      ),
    ).toBe('A deletion is held: b/main');
  });

  it('shows immediately that the daemon is away, the age of the page, and the return', async () => {
    const { page, stop, startAgain, faults } = await open();
    await stop();
    await page.locator('#notice', { hasText: 'The daemon does not answer.' }).waitFor();
    expect(await page.locator('#notice').innerText()).toMatch(/The data shown is \d+ s old\./);
    expect(await page.locator('h1').innerText()).toBe('Unknown');
    expect(await page.locator('#sentence').innerText()).toContain('When it last answered: Ready.');
    expect(await page.title()).toBe('No answer – workbook-mirror');
    expect(await page.locator('#announcer').innerText()).toContain('does not answer');
    await startAgain();
    await page.locator('#retry').click();
    await page.locator('h1', { hasText: 'Ready' }).waitFor();
    expect(await page.locator('#notice').isHidden()).toBe(true);
    await page.locator('#contact', { hasText: 'Live' }).waitFor();
    expect(faults).toEqual([]);
  });

  it.each([
    ['has no events', 'delete globalThis.EventSource;'],
    [
      'gets none',
      "globalThis.EventSource = class extends EventSource { constructor() { super('api/nothing'); } };",
    ],
  ])('is live by asking where a browser %s', async (_, before) => {
    const { page, say } = await open({}, { before });
    say(ordinaryReport({ liveness: STUCK }));
    await page.locator('h1', { hasText: 'Stuck' }).waitFor();
    expect(await page.locator('#contact').innerText()).toBe('Live');
  });

  it('loads itself again when the daemon is another version, and keeps what was chosen', async () => {
    const { page, say, address } = await open();
    await page.locator('#search').fill('plan');
    const reloaded = page.waitForEvent('load');
    say({ ...ordinaryReport(), version: '0.2.0' });
    await reloaded;
    await page.locator('#version', { hasText: '0.2.0' }).waitFor();
    expect(page.url()).toBe(`${address}?search=plan`);
  });

  it('reports data that it cannot show, and continues', async () => {
    const { page, say } = await open();
    const strange = { ...targetStatus(), state: 'odd' } as unknown as TargetStatus;
    say({ ...ordinaryReport(), targets: [strange] });
    await page.locator('#notice', { hasText: 'cannot show the answer' }).waitFor();
    say(ordinaryReport());
    await page.locator('h1', { hasText: 'Ready' }).waitFor();
  });

  it('does not change while it is paused, and says so', async () => {
    const { page, say, asked } = await open();
    const pause = page.locator('#pause');
    await pause.click();
    expect(await pause.getAttribute('aria-pressed')).toBe('true');
    await page.locator('#notice', { hasText: 'Paused.' }).waitFor();
    const before = asked();
    const countdown = await page.locator('.figure').innerText();
    say(ordinaryReport({ liveness: STUCK }));
    await aWhile();
    expect(asked()).toBe(before);
    expect(await page.locator('.figure').innerText()).toBe(countdown);
    expect(await page.locator('h1').innerText()).toBe('Ready');
    await pause.click();
    await page.locator('h1', { hasText: 'Stuck' }).waitFor();
    expect(await page.locator('#notice').isHidden()).toBe(true);
  });

  it('says what is missing after a change of the token', async () => {
    const before =
      "const ask = fetch; globalThis.fetch = (url, options) => url === 'api/status' ? Promise.resolve(new Response('no', { status: 401 })) : ask(url, options);";
    const { page } = await open({}, { ...WITH_TOKEN, before, waits: false });
    await page.locator('#notice', { hasText: 'reload this page to enter it' }).waitFor();
    expect(await page.content()).not.toContain(SECRET);
  });

  it('works with a token that the browser asked for', async () => {
    const { page } = await open({}, WITH_TOKEN);
    await page.locator('#contact', { hasText: 'Live' }).waitFor();
  });

  it('names its parts for a screen reader', async () => {
    const { page } = await openPage(browser(), { report: troubledReport() });
    await page.locator('.row-toggle').first().click();
    const found = await page.evaluate(() => {
      const named = (node: Element) => (node.getAttribute('aria-label') ?? node.textContent).trim() !== '';
      const count = (selector: string) => document.querySelectorAll(selector).length;
      const levels = [...document.querySelectorAll('main :is(h1, h2, h3, h4)')].map((node) =>
        Number(node.localName[1]),
      );
      return {
        landmarks: [count('main'), count('header'), count('footer'), count('[role=search]')],
        h1: count('h1'),
        skips: levels.some((level, index) => index > 0 && level > (levels[index - 1] ?? 1) + 2),
        nameless: [...document.querySelectorAll('button, a, summary')].filter((node) => !named(node)).length,
        pictures: [...document.querySelectorAll('svg')].filter(
          (svg) => !svg.closest('[aria-hidden=true]') && svg.getAttribute('role') !== 'img',
        ).length,
        alternatives: [...document.querySelectorAll('svg[role=img]')].map((svg) =>
          svg.getAttribute('aria-label')?.slice(0, 24),
        ),
        live: count('[aria-live]:not([aria-live=off]), [role=status], [role=alert]'),
        sections: [...document.querySelectorAll('section')].every((section) =>
          section.hasAttribute('aria-labelledby'),
        ),
        times: [...document.querySelectorAll('time')].every(
          (time) => /^\d{4}-.*Z$/.test(time.dateTime) && time.title.includes(time.dateTime),
        ),
        language: document.documentElement.lang,
        headers: [...document.querySelectorAll('th')].every((cell) => cell.hasAttribute('scope')),
      };
    });
    expect(found).toEqual({
      landmarks: [1, 1, 1, 1],
      h1: 1,
      skips: false,
      nameless: 0,
      pictures: 0,
      alternatives: ['100 passes, 6 failed. Me'],
      live: 1,
      sections: true,
      times: true,
      language: 'en',
      headers: true,
    });
  });

  it('is silent for a screen reader while only the clock changes', async () => {
    const { page, say } = await open();
    await page.evaluate(() => {
      new MutationObserver(() => document.body.setAttribute('data-said', 'yes')).observe(
        document.querySelector('#announcer') ?? document.body,
        { childList: true, characterData: true, subtree: true },
      );
    });
    say(ordinaryReport({ live: { nextPassAtMs: NOW_MS + 9 * MINUTE_MS } }));
    await page.locator('.figure', { hasText: /^[89]:/ }).waitFor();
    expect(await page.locator('body').getAttribute('data-said')).toBeNull();
  });

  it('is worked by keys alone, and shows where the focus is', async () => {
    const { page } = await openPage(browser(), { report: troubledReport() });
    const seen: string[] = [];
    for (let index = 0; index < 60; index += 1) {
      await page.keyboard.press('Tab');
      const now = await page.evaluate(() => {
        const node = document.activeElement as HTMLElement;
        const box = node.getBoundingClientRect();
        const { outlineStyle } = getComputedStyle(node);
        return {
          what: node.id || node.className || node.textContent,
          visible: outlineStyle !== 'none' && box.width > 0 && box.top >= 0 && box.bottom <= innerHeight + 1,
        };
      });
      seen.push(now.what);
      expect(now).toEqual({ what: now.what, visible: true });
    }
    expect(seen.slice(0, 3)).toEqual(['skip', 'skip', 'pause']);
    for (const what of ['quiet show', 'link', 'search', 'filter', 'sort', 'row-toggle'])
      expect(seen).toContain(what);
    await page.keyboard.press('Enter');
    expect(await page.locator('[aria-expanded=true].row-toggle').count()).toBe(1);
  });

  it.each(['light', 'dark'] as const)(
    'has no text that is hard to read, in %s colours',
    async (colorScheme) => {
      const { page, stop } = await openPage(browser(), {
        report: troubledReport(),
        context: { colorScheme },
      });
      for (const index of [0, 3]) await page.locator('.row-toggle').nth(index).click();
      await page.locator('.filter', { hasText: 'failing' }).first().click();
      expect(await page.evaluate(faintTexts)).toEqual([]);
      await page.locator('#pause').click();
      expect(await page.evaluate(faintTexts)).toEqual([]);
      await page.locator('#pause').click();
      await stop();
      await page.locator('h1', { hasText: 'Unknown' }).waitFor();
      expect(await page.evaluate(faintTexts)).toEqual([]);
    },
  );

  it('says where to get the state without scripts', async () => {
    const { page } = await open({}, { context: { javaScriptEnabled: false }, waits: false });
    expect(await page.locator('body').innerText()).toContain('/api/status');
    expect(await page.locator('noscript a').first().getAttribute('href')).toBe('api/status');
  });
});
