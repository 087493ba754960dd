/** The status page: takes every report of the daemon and shows it. */

import { byId, element, setText } from '../../lib/page/dom.js';
import { problemsOf } from './attention.js';
import { showLag, showPasses } from './chart-views.js';
import { CONTACT_WORDS, contactNotice, isOld } from './contact.js';
import { Controls } from './controls.js';
import { refill } from './refill.js';
import { tick, timeNode } from './times.js';
import { Feed } from './feed.js';
import { counted } from './format.js';
import { showSummary, showPass } from './summary.js';
import { Notices } from './notices.js';
import { overallOf, unknownState } from './overall.js';
import { showAccess, showDirectory, showProblems, showUpstream } from './panels.js';
import { badge, iconAddress } from './signs.js';
import { TargetTable } from './table.js';
import { arrange, nextOrder } from './targets.js';

/** @import { ContactState } from './contact.js' */
/** @import { Report, Selection, Tone } from './targets.js' */

/** The wait before the result of a search is announced, in milliseconds: the reader may still be typing. */
const TYPING_MS = 700;

/** The page as a whole. */
class Page {
  /** @type {Report | null} */
  #report = null;
  /** When the report came that is shown, and when the daemon last answered at all: by this machine's clock. */
  #reportAtMs = 0;
  #answeredAtMs = 0;
  /** @type {ContactState} */
  #contact = { contact: 'connecting', sinceMs: Date.now(), problem: null };
  /** @type {string | null} */
  #announcedState = null;
  #typingTimer = 0;
  #controls = new Controls(() => this.#onChoice());
  #table = new TargetTable({
    nowMs: () => this.#nowMs(),
    onSort: (column) => this.#controls.sort(nextOrder(this.#controls.order, column)),
    announce,
  });
  #notices = new Notices(() => this.#showReport());
  #feed = new Feed({
    urls: { status: 'api/status', events: 'api/events' },
    onAnswer: (report) => this.#onAnswer(report),
    onContact: (state) => this.#onContact(state),
  });

  start() {
    byId('pause').addEventListener('click', () => {
      if (this.#feed.isPaused) this.#feed.resume();
      else this.#feed.pause();
      this.#showPause();
    });
    byId('retry').addEventListener('click', () => {
      if (this.#feed.isPaused) {
        this.#feed.resume();
        this.#showPause();
      } else this.#feed.askNow();
    });
    new ResizeObserver(() => this.#showCharts()).observe(byId('lag-chart'));
    setInterval(() => this.#everySecond(), 1000);
    this.#feed.start();
    this.#showContact();
  }

  /** The daemon's clock, as this machine's may be wrong; it stands still while the page is paused. @returns {number} */
  #nowMs() {
    if (this.#report === null) return Date.now();
    const untilMs = this.#feed.isPaused ? this.#contact.sinceMs : Date.now();
    return this.#report.nowMs + Math.max(0, untilMs - this.#reportAtMs);
  }

  /** @param {Report | null} report null when nothing has changed */
  #onAnswer(report) {
    this.#answeredAtMs = Date.now();
    if (report === null) return;
    if (this.#report !== null && this.#report.version !== report.version) {
      // Another version may say what the scripts of this page do not know.
      location.reload();
      return;
    }
    this.#report = report;
    this.#reportAtMs = this.#answeredAtMs;
    byId('main').hidden = false;
    byId('waiting').hidden = true;
    this.#showReport();
  }

  /** @param {ContactState} state */
  #onContact(state) {
    const before = this.#contact;
    this.#contact = state.contact === before.contact ? { ...state, sinceMs: before.sinceMs } : state;
    this.#showContact();
    if (isOld(before.contact) && !isOld(state.contact)) announce('The daemon answers again.');
    if (!isOld(before.contact) && isOld(state.contact)) announce(byId('notice').innerText);
  }

  #onChoice() {
    this.#table.toTop();
    this.#showTargets();
    clearTimeout(this.#typingTimer);
    this.#typingTimer = window.setTimeout(
      () => announce(`${byId('targets-count').textContent} targets`),
      TYPING_MS,
    );
  }

  /** @param {Selection} selection */
  #select(selection) {
    this.#controls.select(selection);
    byId('targets').scrollIntoView({ block: 'start' });
    byId('targets').focus({ preventScroll: true });
  }

  #showReport() {
    const report = this.#report;
    if (report === null) return;
    const overall = overallOf(report);
    this.#showSummary();
    showPass(report);
    showProblems(problemsOf(report), { onSelect: (selection) => this.#select(selection), announce });
    this.#showCharts();
    this.#showTargets();
    showUpstream(report);
    showAccess(report);
    showDirectory(report);
    this.#notices.show(report.notices);
    if (this.#announcedState !== null && this.#announcedState !== overall.state)
      announce(`${overall.word}: ${overall.sentence}`);
    this.#announcedState = overall.state;
    this.#showTitle();
    tick(document, this.#nowMs());
  }

  #showSummary() {
    const report = this.#report;
    if (report === null) return;
    const overall = overallOf(report);
    showSummary(report, isOld(this.#contact.contact) ? unknownState(overall) : overall);
  }

  #showCharts() {
    const report = this.#report;
    if (report === null) return;
    showLag(report, this.#nowMs());
    showPasses(report);
    tick(document, this.#nowMs());
  }

  #showTargets() {
    const targets = this.#report?.targets ?? [];
    const { selection, order } = this.#controls;
    const arranged = arrange(targets, selection, order);
    this.#controls.show(targets, arranged.length);
    this.#table.show(arranged, order);
  }

  #showContact() {
    const { contact } = this.#contact;
    const { word, tone } = CONTACT_WORDS[contact];
    refill(byId('contact'), contact, () => [badge(tone, word)]);
    document.documentElement.dataset['contact'] = contact;
    this.#showNotice();
    this.#showSummary();
    this.#showTitle();
  }

  #showNotice() {
    const answeredAtMs = this.#report === null ? null : this.#answeredAtMs;
    const notice = contactNotice(this.#contact, answeredAtMs, Date.now());
    setText(byId('notice-title'), notice?.title ?? '');
    setText(byId('notice-text'), notice?.text ?? '');
    refill(byId('notice-from'), answeredAtMs, () =>
      answeredAtMs === null ? [] : ['It last answered at ', timeNode(answeredAtMs, 'clock'), '.'],
    );
    setText(byId('retry'), this.#feed.isPaused ? 'Go on' : 'Try now');
    byId('notice').hidden = notice === null;
    setText(
      byId('waiting'),
      isOld(this.#contact.contact) ? 'There is nothing to show yet.' : 'Waiting for the daemon…',
    );
    refill(byId('foot-updated'), answeredAtMs, () =>
      answeredAtMs === null ? [] : [element('span', {}, 'Answered ', timeNode(answeredAtMs, 'clock'), '.')],
    );
  }

  #showPause() {
    byId('pause').setAttribute('aria-pressed', String(this.#feed.isPaused));
    this.#showNotice();
  }

  #showTitle() {
    const { contact } = this.#contact;
    const { word, tone } = this.#titleState();
    const failing = this.#report?.readiness.notReady.length ?? 0;
    const count = failing > 0 && !isOld(contact) ? ` (${counted(failing, 'target')} not ready)` : '';
    const title = `${word}${count} – workbook-mirror`;
    if (document.title !== title) document.title = title;
    const address = iconAddress(tone);
    const icon = byId('icon');
    if (icon.getAttribute('href') !== address) icon.setAttribute('href', address);
  }

  /** @returns {{ word: string, tone: Tone }} */
  #titleState() {
    const { contact } = this.#contact;
    return isOld(contact) || this.#report === null ? CONTACT_WORDS[contact] : overallOf(this.#report);
  }

  #everySecond() {
    if (isOld(this.#contact.contact) || this.#feed.isPaused) this.#showNotice();
    if (this.#feed.isPaused) return;
    tick(document, this.#nowMs());
    if (this.#report !== null) showLag(this.#report, this.#nowMs());
  }
}

/** Says something to a screen reader. @param {string} text */
function announce(text) {
  setText(byId('announcer'), text);
}

new Page().start();
