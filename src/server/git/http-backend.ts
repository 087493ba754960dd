import { MirrorError } from '../../lib/errors/errors.ts';
import type { Reply } from '../../lib/http/reply.ts';
import { bodyOf } from '../../lib/http/request.ts';
import type { Bytes } from '../http/library.ts';
import type { ServiceRequest } from '../http/messages.ts';
import { type Git, type GitProcess, settingArguments } from './git.ts';
import { settleDefaultBranch } from './refs.ts';
import type { Registry } from './repositories.ts';

/**
 * Rules for git clients. They may fetch partially (git-clone(1), `--filter`). They may push only branches and tags, and only valid
 * objects. Three harmless faults that old tools left in many histories are only reported (git-config(1), `receive.fsck.<msg-id>`).
 */
const RULES = [
  'http.getanyfile=false',
  'http.receivepack=true',
  'uploadpack.allowFilter=true',
  'receive.hideRefs=refs',
  'receive.hideRefs=!refs/heads',
  'receive.hideRefs=!refs/tags',
  'receive.fsckObjects=true',
  'receive.fsck.badTimezone=warn',
  'receive.fsck.missingSpaceBeforeDate=warn',
  'receive.fsck.zeroPaddedFilemode=warn',
  'receive.autogc=false',
] as const;

/** Time for a broken push to clean up: git may have received much data. */
const PUSH_GRACE_MS = 10_000;

/** Enough for the ids of all commits that a client has (git-http-backend(1)). */
const MAX_WANTS_BYTES = 64 * 1024 ** 2;

/** A request as git-http-backend(1) reads it (RFC 3875). */
function cgiVariables(gitDirectory: string, asked: string, { method, headers, query }: ServiceRequest) {
  return {
    GIT_HTTP_EXPORT_ALL: '1',
    GIT_HTTP_MAX_REQUEST_BUFFER: String(MAX_WANTS_BYTES),
    PATH_TRANSLATED: `${gitDirectory}/${asked}`,
    QUERY_STRING: new URLSearchParams({ service: query.get('service') ?? '' }).toString(),
    REQUEST_METHOD: method,
    SERVER_PROTOCOL: 'HTTP/1.1',
    CONTENT_TYPE: headers['content-type'] ?? '',
    HTTP_CONTENT_ENCODING: headers['content-encoding'] ?? '',
    GIT_PROTOCOL: String(headers['git-protocol'] ?? ''),
  };
}

const HEAD_END = '\r\n\r\n';

/** Reads the head of a CGI answer (RFC 3875, section 6), lines of `Name: value`. */
export function parseHead(head: string): Pick<Reply, 'status' | 'headers'> {
  const lines = head.split('\r\n').map((line) => line.split(/: (.*)/));
  const headers = lines.map(([name = '', value = '']) => [name.toLowerCase(), value] as const);
  const { status = '200', ...others } = Object.fromEntries(headers);
  return { status: Number.parseInt(status, 10), headers: others };
}

/** The output of a program; a reader that stops early leaves the pipe open, so that a push can end after its client has gone. */
function outputOf({ stdout }: GitProcess): AsyncIterable<Buffer> {
  return stdout.iterator({ destroyOnReturn: false });
}

/** Reads the head of the answer; the rest stays in the output. Returns null if the program ends before its head is complete. */
async function readHead(running: GitProcess): Promise<string | null> {
  let read: Buffer = Buffer.alloc(0);
  for await (const chunk of outputOf(running)) {
    read = Buffer.concat([read, chunk]);
    const end = read.indexOf(HEAD_END);
    if (end === -1) continue;
    running.stdout.unshift(read.subarray(end + HEAD_END.length));
    return read.toString('latin1', 0, end);
  }
  return null;
}

/** Gives the rest of the answer. @throws MirrorError `service.failed` when git fails, the errors of the request and of `followed` */
async function* bytesOf(running: GitProcess, followed: Promise<void>): Bytes {
  try {
    yield* outputOf(running);
  } finally {
    running.stdout.resume();
  }
  // A client reads the end of an answer only after it has sent everything.
  const problem = await running.fed;
  if (problem !== null) throw problem;
  const { code, complaint } = await running.exit;
  if (code !== 0) throw unanswered(complaint);
  await followed;
}

function unanswered(complaint: string): MirrorError {
  const message = complaint.includes("'http-backend' is not a git command")
    ? 'this Git has no http-backend, which answers git clients: install it (on Alpine the package git-daemon)'
    : `git does not answer a client: ${complaint}`;
  return new MirrorError('service.failed', message);
}

/**
 * Makes a function that answers a request of a git client by git-http-backend(1): for `info/refs` or a program of Git.
 * @param maxUploadBytes largest push
 * @param onPushed called with the id of a repository when a push has ended; must not throw
 * @throws RequestError 503 for a repository that is not cloned yet, MirrorError `service.failed` when git cannot answer, the reason of
 *   its signal
 */
export function createGitReply(
  git: Git,
  registry: Registry,
  { maxUploadBytes, onPushed }: { maxUploadBytes: number; onPushed: (repositoryId: string) => void },
) {
  const args = [...settingArguments(...RULES, `receive.maxInputSize=${maxUploadBytes}`), 'http-backend'];

  return async (repositoryId: string, asked: string, request: ServiceRequest): Promise<Reply> => {
    const { signal } = request;
    const gitDirectory = registry.presentDirectory(repositoryId);
    const leave = await git.forClients.take(signal);
    const isPush = asked === 'git-receive-pack';
    const running = git.start(null, args, {
      environment: cgiVariables(gitDirectory, asked, request),
      input: asked === 'info/refs' ? '' : bodyOf(request.body),
      signal,
      graceMs: isPush ? PUSH_GRACE_MS : 0,
    });
    void running.exit.finally(leave);
    // Done even if the client has disconnected.
    const followed = (async () => {
      await running.exit;
      if (!isPush) return;
      await settleDefaultBranch(git, gitDirectory);
      onPushed(repositoryId);
    })();
    // It is awaited, and so thrown, at the end of the answer.
    followed.catch(() => undefined);
    const head = await readHead(running);
    // The answer is not read if its client has gone, or wants only the head.
    signal.addEventListener('abort', () => running.stdout.resume(), { once: true });
    if (signal.aborted) running.stdout.resume();
    signal.throwIfAborted();
    const { status, headers } = parseHead(head ?? 'Status: 500');
    // A listed repository that git does not find is damaged; the reason goes to the log only.
    if (status === 404 || status >= 500) throw unanswered((await running.exit).complaint);
    return { status, headers, body: { open: () => bytesOf(running, followed) } };
  };
}
