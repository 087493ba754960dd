import { REPOSITORIES_PATH } from '../lib/api/requests.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { roughSize } from '../lib/text/humanize.ts';
import type { ReferenceForm } from '../mirror/upstream/reference-forms.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import { type Ask, type Asker, createAsker, type ProbeLimits, ProbeStopped } from './asker.ts';
import { noSubject, readContents } from './contents-findings.ts';
import { askForContents } from './contents.ts';
import { CREDENTIALS } from './credentials.ts';
import { PAGES } from './pages.ts';
import { LIST_BYTES, NO_REPOSITORY_LIST, readRepositoryList, REPOSITORIES } from './repositories.ts';
import type { ProbeAnswer, ProbeConnection } from './connection.ts';
import { REFERENCES, tryReferences } from './references.ts';
import { chooseSubject } from './subjects.ts';
import { answersTo, type Finding } from './table.ts';
import { TRANSPORT } from './transport.ts';
import { askForWorkbooks, type ListedWorkbook, type WorkbookList } from './workbook-list.ts';
import { V1, WORKBOOKS } from './workbooks.ts';
import { shapeOf } from './words.ts';

/** What a probe is made with. */
export interface ProbeOptions extends ProbeLimits {
  readonly sender: ProbeConnection;
  /** The application's address followed by `/api`. */
  readonly baseUrl: string;
  /** Whether there is a token to ask v1 with. */
  readonly asksV1: boolean;
  /** Whether it also asks without a credential, and with one that is made up. */
  readonly triesWrongKey: boolean;
  /** Waits for so many milliseconds. @throws MirrorError `pass.abandoned` */
  readonly pause: (delayMs: number) => Promise<void>;
  /** Told before each request what is being asked, and how many requests there were. */
  readonly onProgress: (what: string, sent: number) => void;
}

/** What a probe found out. It names no repository, workbook, person, host or key. */
export interface ProbeReport {
  /** Version of this format. */
  readonly format: 1;
  readonly requests: number;
  /** Why it ended before everything was asked; null when it did not. */
  readonly stopped: string | null;
  readonly findings: readonly Finding[];
}

/**
 * Asks a service how it behaves where its specification says "not shown". It reads only.
 * @throws MirrorError `credentials.refused`, `service.unreachable`, `service.not_found` or `service.wrong_kind` when the list of
 *   repositories cannot be had, without which nothing can be asked; `pass.abandoned`
 */
export async function probe(options: ProbeOptions): Promise<ProbeReport> {
  const findings: Finding[] = [];
  let what = '';
  const asker = createAsker(options.sender, options, options.pause, (sent) => options.onProgress(what, sent));
  const step = async (name: string, work: () => Promise<readonly Finding[]>): Promise<void> => {
    what = name;
    findings.push(...(await work()));
  };
  let stopped: string | null = null;
  what = 'the list of repositories';
  const list = readRepositoryList(await firstList(asker));
  try {
    await step(what, () => answersTo(list.isArray ? REPOSITORIES : NO_REPOSITORY_LIST, list, asker.ask));
    await askAbout(asker, list.repositories, options, step);
  } catch (error) {
    if (!(error instanceof ProbeStopped)) throw error;
    stopped = error.message;
  }
  const traffic = {
    all: asker.answers,
    heads: asker.answers.filter(({ status }) => status > 0),
    offersHttp2: await options.sender.offersHttp2(),
    connections: options.sender.connections(),
  };
  findings.push(...(await answersTo(TRANSPORT, traffic, asker.ask)));
  return { format: 1, requests: asker.sent(), stopped, findings };
}

type Step = (name: string, work: () => Promise<readonly Finding[]>) => Promise<void>;

async function askAbout(
  asker: Asker,
  repositories: readonly Repository[],
  options: ProbeOptions,
  step: Step,
): Promise<void> {
  let listed: readonly ListedWorkbook[] = [];
  await step('the list of workbooks', async () => {
    const list = options.asksV1 ? await askForWorkbooks(asker.ask, options.baseUrl) : null;
    listed = list?.listed ?? [];
    return aboutWorkbooks(asker.ask, list, repositories, options.baseUrl);
  });
  let form: ReferenceForm | null = null;
  await step('references', async () => {
    const tried = await tryReferences(asker.ask, repositories, listed);
    form = tried.form;
    return answersTo(REFERENCES, tried, asker.ask);
  });
  await step('the contents of a small repository', async () => {
    const subject = form === null ? null : await chooseSubject(asker, repositories, listed, form);
    if (subject === null) return noSubject(roughSize(options.maxDownloadBytes));
    return readContents(await askForContents(asker, subject));
  });
  const generations = options.asksV1 ? (['current', 'v1'] as const) : (['current'] as const);
  await step('credentials', () =>
    answersTo(CREDENTIALS, { generations: options.triesWrongKey ? generations : [] }, asker.ask),
  );
}

async function aboutWorkbooks(
  ask: Ask,
  list: WorkbookList | null,
  repositories: readonly Repository[],
  baseUrl: string,
): Promise<readonly Finding[]> {
  const isThere = await answersTo(V1, { list }, ask);
  if (list === null || list.pages.length === 0) return isThere;
  const pages = await answersTo(PAGES, { ...list, baseUrl }, ask);
  return [...isThere, ...pages, ...(await answersTo(WORKBOOKS, { ...list, repositories }, ask))];
}

/** Asks for what everything else depends on. */
async function firstList(asker: Asker): Promise<ProbeAnswer> {
  const answer = await asker
    .ask({ target: REPOSITORIES_PATH, maxBytes: LIST_BYTES })
    .catch((error: unknown) => {
      if (error instanceof ProbeStopped) throw cannotBegin(error.message);
      throw error;
    });
  if (answer.status === 200) return answer;
  if (answer.failure !== null) throw answer.failure;
  if (answer.status === 403) throw cannotBegin('the service refused the credential (status 403)');
  const code = answer.status === 404 ? 'service.not_found' : 'service.wrong_kind';
  throw new MirrorError(code, `The list of repositories was answered with ${shapeOf(answer)}.`, {
    hint: ADDRESS_HINT,
  });
}

const ADDRESS_HINT =
  'Check the setting service.baseUrl: it is the address of the application followed by /api.';

function cannotBegin(why: string): MirrorError {
  const code = why.includes('credential') ? 'credentials.refused' : 'service.busy';
  return new MirrorError(code, `Nothing could be asked: ${why}.`, {
    hint:
      code === 'service.busy'
        ? 'Try again later.'
        : 'Check the setting service.apiKey: a personal API key is needed.',
  });
}
