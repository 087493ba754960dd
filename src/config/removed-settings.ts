import { environmentVariableOf, kebabName } from './descriptors.ts';

const MOVE_KEY = 'put this key on a line of its own below the one of';
const TIMEOUT = 'give service.timeout, which is for the start of an answer and for silence within it';
const NETWORKS =
  'leave it out: link-local addresses are refused; refuse others by a firewall, or by IPAddressDeny= of systemd';

/** Settings of an earlier version, by dotted name: each with its remedy, as a clause. */
const ADVICE: Readonly<Record<string, string>> = {
  'service.apiKeySecond': `${MOVE_KEY} service.apiKey, or of its file`,
  'service.apiKeySecondFile': `${MOVE_KEY} service.apiKey, or of its file`,
  'service.apiTokenSecond': `${MOVE_KEY} service.apiToken, or of its file`,
  'service.apiTokenSecondFile': `${MOVE_KEY} service.apiToken, or of its file`,
  'service.connectTimeout':
    'leave it out: a connection may take ten seconds, or service.timeout if that is less',
  'service.headersTimeout': TIMEOUT,
  'service.stallTimeout': TIMEOUT,
  'service.retries':
    'leave it out: a request is tried four times more, a download as long as each try brings more of it',
  'service.maxRetryDelay':
    'leave it out: a request waits for 30 seconds at most, and then fails until the next pass',
  'service.maxAnswerSize': 'leave it out: a list, or each of its pages, may have 256 MiB',
  'archive.maxRatio': 'leave it out: archive.maxUnpackedSize says how many bytes an archive may unpack to',
  dedup:
    'leave it out: each target stores its own files; on btrfs and xfs, duperemove makes equal files share blocks',
  pageCache: 'leave it out: files of an archive of more than 1 MiB go past the page cache',
  processingPatience: 'leave it out: a new target waits up to 15 minutes while the service processes it',
  shutdownTimeout: 'leave it out: the program ends within 30 seconds; give its supervisor a little more',
  slowAfter:
    'leave it out: a pull that takes longer than a minute no longer counts against concurrency, and passes end without it',
  stuckAfter:
    'leave it out: a pass without progress for 15 minutes, or for twice service.timeout if that is longer, is stuck',
  'retire.afterPasses':
    'leave it out: a tree is retired when two complete lists in a row lack its repository or branch',
  'serve.networks.allow': NETWORKS,
  'serve.networks.refuse': NETWORKS,
  'serve.maxRepositorySize': 'leave it out: the objects of a cloned repository may take 20 GiB on disk',
  'serve.maxUploadSize': 'leave it out: a file to upload, and a push, may have 2 GiB',
  'serve.pageSize': 'leave it out: a page has 100 rows, or as many as the request asks for with page_size',
};

/** All of them, with all their names. */
export const removedSettings = Object.entries(ADVICE).map(([name, advice]) => ({
  name,
  environmentVariable: environmentVariableOf(name),
  flag: `--${kebabName(name)}`,
  /** For a `SettingProblem`. */
  message: `this setting was removed; ${advice}`,
}));

/** The remedy for a removed setting with this dotted name, or in a section with this name; undefined for none. */
export function removalMessage(name: string): string | undefined {
  return removedSettings.find((each) => each.name === name || each.name.startsWith(`${name}.`))?.message;
}
