/** The status page: shows every report of the daemon. */

import { byId, setText } from './dom.js';
import { problemsOf } from './attention.js';
import { Feed } from './feed.js';
import { counted, wholeText } from './format.js';
import { announce, badge, refill, tick } from './nodes.js';
import { overallOf, unknownState } from './overall.js';
import { showChanged, showFacts, showNotices, showProblems } from './panels.js';
import { showPass, showPasses, showSummary } from './summary.js';
import { TargetTable } from './table.js';

/** @import { Contact } from './feed.js' */
/** @import { Report, Selection, Tone } from './targets.js' */

/** Delay before the result of a search is announced, in milliseconds: the user may still be typing. */
const TYPING_MS = 700;

/** @type {Readonly<Record<Contact, { word: string, tone: Tone, notice: string }>>} */
const CONTACTS = {
  connecting: { word: 'Connecting', tone: 'off', notice: '' },
  live: { word: 'Live', tone: 'ok', notice: '' },
  gone: { word: 'No answer', tone: 'bad', notice: 'The daemon does not answer.' },
  mute: { word: 'No state', tone: 'bad', notice: 'The daemon answers, but without its state.' },
  paused: { word: 'Paused', tone: 'off', notice: 'Paused.' },
};

/** The colours of the icon of the page. @type {Readonly<Record<Tone, string>>} */
const ICON_COLOURS = { ok: '#12805c', warn: '#a66300', bad: '#c5302a', held: '#6350c7', off: '#64707c' };

/** Whether the shown data may be outdated. @param {Contact} contact @returns {boolean} */
function isOld(contact) {
  return contact === 'gone' || contact === 'mute';
}

/** The page as a whole. */
class StatusPage {
  /** @type {Report | null} */
  #report = null;
  /** When the shown report came, and when the daemon last answered: by this machine's clock. */
  #reportAtMs = 0;
  #answeredAtMs = 0;
  /** @type {Contact} */
  #contact = 'connecting';
  /** @type {string | null} */
  #problem = null;
  #pausedAtMs = 0;
  /** @type {string | null} */
  #announcedWord = null;
  #typingTimer = 0;
  #areNoticesWhole = false;
  #table = new TargetTable(() => this.#onChoice());
  #feed = new Feed({
    onAnswer: (report) => this.#onAnswer(report),
    onContact: (contact, problem) => this.#onContact(contact, problem),
  });

  start() {
    byId('pause').addEventListener('click', () => {
      this.#pausedAtMs = Date.now();
      if (this.#feed.isPaused) this.#feed.resume();
      else this.#feed.pause();
      byId('pause').setAttribute('aria-pressed', String(this.#feed.isPaused));
    });
    byId('retry').addEventListener('click', () => this.#feed.resume());
    byId('notices-more').addEventListener('click', () => {
      this.#areNoticesWhole = !this.#areNoticesWhole;
      this.#showReport();
    });
    setInterval(() => this.#everySecond(), 1000);
    this.#feed.start();
    this.#showContact();
  }

  /** The daemon's clock, as this machine's may be wrong; it does not move while the page is paused. @returns {number} */
  #nowMs() {
    const untilMs = this.#feed.isPaused ? this.#pausedAtMs : Date.now();
    return (this.#report?.nowMs ?? untilMs) + Math.max(0, untilMs - this.#reportAtMs);
  }

  /** @param {Report | null} report null when nothing has changed */
  #onAnswer(report) {
    this.#answeredAtMs = Date.now();
    if (report === null) return;
    // This page's scripts may not understand another version.
    if (this.#report !== null && this.#report.version !== report.version) {
      location.reload();
      return;
    }
    this.#report = report;
    this.#reportAtMs = this.#answeredAtMs;
    byId('main').hidden = false;
    byId('waiting').hidden = true;
    this.#showReport();
  }

  /** @param {Contact} contact @param {string | null} problem */
  #onContact(contact, problem) {
    const before = this.#contact;
    this.#contact = contact;
    this.#problem = problem;
    this.#showContact();
    if (isOld(before) && !isOld(contact)) announce('The daemon answers again.');
    if (!isOld(before) && isOld(contact)) announce(byId('notice').innerText);
  }

  #onChoice() {
    this.#showReport();
    clearTimeout(this.#typingTimer);
    const say = () => announce(`${byId('targets-count').textContent} targets`);
    this.#typingTimer = window.setTimeout(say, TYPING_MS);
  }

  #showReport() {
    const report = this.#report;
    if (report === null) return;
    /** @param {Partial<Selection>} selection */
    const onSelect = (selection) => this.#table.select(selection);
    showPass(report);
    showProblems(problemsOf(report), onSelect);
    showChanged(report, onSelect);
    showPasses(report);
    this.#table.show(report.targets);
    showFacts(report);
    showNotices(report, this.#areNoticesWhole);
    this.#showState();
    tick(this.#nowMs());
  }

  /** Shows the overall state in the page, the title and the icon. */
  #showState() {
    const report = this.#report;
    let { word, tone } = CONTACTS[this.#contact];
    if (report !== null) {
      const overall = overallOf(report);
      showSummary(report, isOld(this.#contact) ? unknownState(overall) : overall);
      if (!isOld(this.#contact)) ({ word, tone } = overall);
      if (this.#announcedWord !== null && this.#announcedWord !== overall.word)
        announce(`${overall.word}: ${overall.sentence}`);
      this.#announcedWord = overall.word;
    }
    const failing = isOld(this.#contact) ? 0 : (report?.readiness.notReady.length ?? 0);
    document.title = `${word}${failing > 0 ? ` (${counted(failing, 'target')} not ready)` : ''} – workbook-mirror`;
    const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="${ICON_COLOURS[tone]}"/></svg>`;
    byId('icon').setAttribute('href', `data:image/svg+xml,${encodeURIComponent(icon)}`);
  }

  #showContact() {
    const { word, tone } = CONTACTS[this.#contact];
    refill(byId('contact'), word, () => [badge(tone, word)]);
    document.documentElement.dataset['contact'] = this.#contact;
    this.#showNotice();
    this.#showState();
  }

  #showNotice() {
    const { notice } = CONTACTS[this.#contact];
    const age =
      this.#report === null
        ? 'It has not answered since this page was loaded.'
        : `The data shown is ${wholeText(Date.now() - this.#answeredAtMs)} old.`;
    setText(byId('notice-title'), notice);
    setText(byId('notice-text'), `${this.#problem ?? ''} ${age}`.trim());
    setText(byId('retry'), this.#feed.isPaused ? 'Resume' : 'Try now');
    byId('notice').hidden = notice === '';
    setText(
      byId('waiting'),
      isOld(this.#contact) ? 'There is nothing to show yet.' : 'Waiting for the daemon…',
    );
  }

  #everySecond() {
    this.#showNotice();
    if (!this.#feed.isPaused) tick(this.#nowMs());
  }
}

new StatusPage().start();
