import { MISSING } from '../../src/probe/references.ts';
import { withSharedNames } from '../../src/probe/repositories.ts';
import type { Reply } from './http.ts';
import type { SampledBranch, SampledFile, Subject } from './subject.ts';
import { given, holds, NotApplicable, NotMet } from './verdict.ts';
import type { Statement } from './statement.ts';
import { readZip } from './zip.ts';

/** What the specification says of contents (section 4.1), and what HTTP says of what may be offered with them. */

async function fileReply(subject: Subject, { branch, path }: SampledFile, headers = {}): Promise<Reply> {
  return subject.contents(branch.reference, path, branch.branch, { headers });
}

/** The form in which the names in a folder's archive stand, or null where its files are not those of the folder. */
function folderForm(
  folder: string,
  whole: ReadonlyMap<string, Buffer>,
  found: ReadonlyMap<string, Buffer>,
): string | null {
  const expected = [...whole].filter(([path]) => path.startsWith(`${folder}/`));
  const last = folder.slice(folder.lastIndexOf('/') + 1);
  const forms: readonly (readonly [string, string])[] = [
    ['names relative to the folder', ''],
    ['names with the whole path', `${folder}/`],
    ["names with the folder's own name", `${last}/`],
  ];
  for (const [form, prefix] of forms) {
    const isSame = expected.every(([path, bytes]) => {
      const given = found.get(prefix + path.slice(folder.length + 1));
      return given?.equals(bytes) === true;
    });
    if (isSame && found.size === expected.length) return form;
  }
  // One folder around everything is taken off the whole archive, too.
  const [first = ''] = found.keys();
  const wrapping = first.slice(0, first.indexOf('/') + 1);
  if (wrapping === '' || ![...found.keys()].every((name) => name.startsWith(wrapping))) return null;
  const inner = new Map([...found].map(([name, bytes]) => [name.slice(wrapping.length), bytes]));
  return folderForm(folder, whole, inner);
}

async function checkFolders(subject: Subject): Promise<string> {
  const forms = new Set<string>();
  for (const sample of await subject.filled()) {
    const folders = [...sample.files.keys()].flatMap((path) => {
      const segments = path.split('/').slice(0, -1);
      return segments.map((_, index) => segments.slice(0, index + 1).join('/'));
    });
    for (const folder of [...new Set(folders)].slice(0, subject.options.sample)) {
      const reply = await subject.contents(sample.reference, folder, sample.branch);
      holds(reply.status === 200, `status ${reply.status}`);
      const form = folderForm(folder, sample.files, await readZip(reply.body));
      holds(form !== null, 'the archive of a folder does not hold the files of that folder');
      forms.add(form);
    }
  }
  given(forms.size > 0, 'no folder was found');
  return [...forms].join('; ');
}

async function checkFiles(subject: Subject, files: readonly SampledFile[], why: string): Promise<string> {
  given(files.length > 0, why);
  for (const file of files) {
    const { status, body } = await fileReply(subject, file);
    holds(status === 200, `status ${status}`);
    holds(body.equals(file.bytes), 'a file has other bytes than in the archive');
  }
  return `${files.length} files`;
}

async function oneBranch(subject: Subject): Promise<SampledBranch> {
  const [sample] = await subject.filled();
  if (sample === undefined) throw new NotApplicable('nothing could be downloaded');
  return sample;
}

async function oneFile(subject: Subject): Promise<SampledFile> {
  const files = await subject.files();
  const file = files.find(({ bytes }) => bytes.length > 1) ?? files[0];
  if (file === undefined) throw new NotApplicable('no file was found');
  return file;
}

/** Asks for something again, with further headers. */
type Ask = (headers?: Readonly<Record<string, string>>, method?: 'GET' | 'HEAD') => Promise<Reply>;

/** What asks for a whole archive, and for a single file. */
async function bothKinds(subject: Subject): Promise<readonly Ask[]> {
  const sample = await oneBranch(subject);
  const file = await oneFile(subject);
  const asking =
    ({ reference, branch }: SampledBranch, path?: string): Ask =>
    (headers = {}, method = 'GET') =>
      subject.contents(reference, path, branch, { headers, method });
  return [asking(sample), asking(file.branch, file.path)];
}

async function absence(reply: Promise<Reply>): Promise<string> {
  const { status, headers } = await reply;
  holds(status < 200 || status > 299, `status ${status}: an answer of success for what is not there`);
  return `status ${status}, ${headers['content-type']?.split(';')[0] ?? 'no content type'}`;
}

const PATH_STATEMENTS: readonly Statement[] = [
  {
    id: 'contents-repository',
    section: '4.1',
    statement: '/repos/{repo}/contents gives the whole repository as a zip archive, each entry whole',
    kind: 'required',
    check: async (subject) => {
      const known = await subject.known();
      given(known.length > 0, 'there is no repository');
      const samples = await subject.samples();
      holds(samples.length > 0, 'no form of reference gives an archive of any repository');
      return `${samples.length} archives, ${samples.reduce((sum, { files }) => sum + files.size, 0)} files`;
    },
  },
  {
    id: 'contents-folder',
    section: '4.1',
    statement: '/repos/{repo}/contents/{folder_path} gives the content of that folder as a zip archive',
    kind: 'required',
    check: checkFolders,
  },
  {
    id: 'contents-file',
    section: '4.1',
    statement: '/repos/{repo}/contents/{folder_path}/{workbook_file} gives the file itself',
    kind: 'required',
    check: async (subject) => checkFiles(subject, await subject.files(), 'no file was found'),
  },
  {
    id: 'contents-deep-path',
    section: '4.1',
    statement: '{path} may have several segments',
    kind: 'required',
    check: async (subject) => {
      const files = (await subject.files()).filter(({ path }) => path.includes('/'));
      return checkFiles(subject, files, 'no file in a folder was found');
    },
  },
  {
    id: 'contents-encoded-path',
    section: '4.1',
    statement: 'a path with spaces and letters beyond ASCII is taken in percent-encoding (RFC 3986)',
    kind: 'required',
    check: async (subject) => {
      const files = (await subject.files()).filter(({ path }) => encodeURI(path) !== path);
      return checkFiles(subject, files, 'no such path was found');
    },
  },
  {
    id: 'contents-media-type',
    section: '4.1',
    statement: 'the body of contents is binary: its content type is neither JSON nor HTML',
    kind: 'required',
    check: async (subject) => {
      const types = new Set<string>();
      for (const ask of await bothKinds(subject)) {
        const type = (await ask()).headers['content-type'] ?? 'none';
        holds(!/json|html/i.test(type), `the content type is ${type}`);
        types.add(type);
      }
      return [...types].join('; ');
    },
  },
  {
    id: 'contents-branch',
    section: '4.1',
    statement: 'with `branch` the content of that branch is given, for a file as for an archive',
    kind: 'required',
    check: async (subject) => {
      const named = (await subject.files()).filter(({ branch }) => branch.branch !== null);
      given(new Set(named.map(({ branch }) => branch.branch)).size > 1, 'no two branches are listed');
      return checkFiles(subject, named, 'no branch is listed');
    },
  },
  {
    id: 'contents-no-branch',
    section: '4.1',
    statement: '`branch` may be left out: which branch is given',
    kind: 'required',
    check: async (subject) => {
      const sample = await oneBranch(subject);
      const { status, body } = await subject.contents(sample.reference);
      holds(status === 200, `status ${status}`);
      const files = await readZip(body);
      const same = (await subject.filled()).filter(
        (each) =>
          each.repository.id === sample.repository.id && each.branch !== null && isSame(each.files, files),
      );
      return same.length === 0 ? 'none that is known' : `the content of ${same.length} known branch(es)`;
    },
  },
];

function isSame(one: ReadonlyMap<string, Buffer>, other: ReadonlyMap<string, Buffer>): boolean {
  return (
    one.size === other.size && [...one].every(([path, bytes]) => other.get(path)?.equals(bytes) === true)
  );
}

const REFERENCE_STATEMENTS: readonly Statement[] = [
  {
    id: 'reference-forms',
    section: '4.1',
    statement: 'which forms of {repo} give the repository',
    kind: 'observed',
    check: async (subject) => {
      const forms = new Set<string>();
      for (const found of (await subject.references()).values())
        for (const form of found.keys()) forms.add(form);
      return forms.size === 0 ? 'none' : [...forms].join(', ');
    },
  },
  {
    id: 'reference-same',
    section: '4.1',
    statement: 'all forms of {repo} that work give the same repository',
    kind: 'optional',
    check: async (subject) => {
      const references = await subject.references();
      for (const forms of references.values()) {
        const texts = [...forms.values()];
        if (texts.length < 2) continue;
        const archives: ReadonlyMap<string, Buffer>[] = [];
        for (const text of texts) archives.push(await readZip((await subject.contents(text)).body));
        const [first = new Map<string, Buffer>(), ...others] = archives;
        holds(
          others.every((other) => isSame(first, other)),
          'two forms give different contents',
        );
        return `${texts.length} forms`;
      }
      throw new NotApplicable('no repository answers to two forms');
    },
  },
  {
    id: 'reference-ambiguous',
    section: '4.1',
    statement: 'the answer to a short name that several repositories have',
    kind: 'observed',
    check: async (subject) => {
      const [shared] = withSharedNames(await subject.known());
      if (shared === undefined) throw new NotApplicable('no short name is shared');
      return `status ${(await subject.contents(encodeURIComponent(shared.name))).status}`;
    },
  },
];

const ABSENCE_STATEMENTS: readonly Statement[] = [
  {
    id: 'absent-repository',
    section: '7',
    statement: 'contents of a repository that does not exist are not answered with success',
    kind: 'optional',
    check: async (subject) => absence(subject.contents(MISSING)),
  },
  {
    id: 'absent-branch',
    section: '7',
    statement: 'contents of a branch that does not exist are not answered with success',
    kind: 'optional',
    check: async (subject) => {
      const { reference } = await oneBranch(subject);
      return absence(subject.contents(reference, undefined, MISSING));
    },
  },
  {
    id: 'absent-path',
    section: '7',
    statement: 'contents of a path that does not exist are not answered with success',
    kind: 'optional',
    check: async (subject) => {
      const { reference, branch } = await oneBranch(subject);
      return absence(subject.contents(reference, `${MISSING}/${MISSING}.xlsx`, branch));
    },
  },
];

const HTTP_STATEMENTS: readonly Statement[] = [
  {
    id: 'http-head',
    section: 'RFC 9110, 9.3.2',
    statement: 'where HEAD is answered as GET is, it has its headers and no body',
    kind: 'optional',
    check: async (subject) => {
      const seen: string[] = [];
      for (const ask of await bothKinds(subject)) {
        const head = await ask({}, 'HEAD');
        if (head.status !== 200) throw new NotApplicable(`status ${head.status}`);
        const whole = await ask();
        for (const name of ['content-type', 'etag', 'content-length']) {
          const [one, other] = [head.headers[name], whole.headers[name]];
          if (one !== undefined) holds(one === other, `${name} differs from that of GET`);
        }
        seen.push(head.headers['content-length'] === undefined ? 'without a length' : 'with a length');
      }
      return `an archive ${seen[0] ?? ''}, a file ${seen[1] ?? ''}`;
    },
  },
  {
    id: 'http-etag',
    section: 'RFC 9110, 8.8.3',
    statement: 'what has the same strong ETag has the same bytes',
    kind: 'optional',
    check: async (subject) => {
      let seen = 0;
      for (const ask of await bothKinds(subject)) {
        const [one, other] = [await ask(), await ask()];
        const tag = one.headers['etag'];
        if (tag === undefined) continue;
        seen += 1;
        holds(/^(?:W\/)?"[^"]*"$/.test(tag), 'an ETag is not in quotes');
        if (tag.startsWith('"') && tag === other.headers['etag'])
          holds(one.body.equals(other.body), 'the bytes differ');
      }
      given(seen > 0, 'it sends no ETag');
      return `on ${seen} of 2`;
    },
  },
  {
    id: 'http-if-none-match',
    section: 'RFC 9110, 13.1.2',
    statement:
      'with an ETag, If-None-Match gives 304 without a body while it fits, and the content when it does not',
    kind: 'optional',
    check: async (subject) => {
      let honoured = 0;
      let seen = 0;
      for (const ask of await bothKinds(subject)) {
        const tag = (await ask()).headers['etag'];
        if (tag === undefined) continue;
        seen += 1;
        const fitting = await ask({ 'if-none-match': tag });
        holds([200, 304].includes(fitting.status), `status ${fitting.status} for a tag that fits`);
        if (fitting.status === 304) {
          honoured += 1;
          holds(fitting.body.length === 0, '304 with a body');
          const again = fitting.headers['etag'];
          holds(again === undefined || again === tag, '304 names another ETag');
        }
        const other = await ask({ 'if-none-match': '"no-such-tag-4b1c9e"' });
        holds(other.status === 200, `status ${other.status} for a tag that does not fit`);
      }
      given(seen > 0, 'it sends no ETag');
      return `304 on ${honoured} of ${seen}`;
    },
  },
  {
    id: 'http-range',
    section: 'RFC 9110, 14',
    statement: 'where a range of a file is answered with 206, it is that part and says so',
    kind: 'optional',
    check: async (subject) => {
      const file = await oneFile(subject);
      const reply = await fileReply(subject, file, { range: 'bytes=1-3' });
      if (reply.status === 200) {
        holds(reply.body.equals(file.bytes), '200 with other bytes than the file has');
        holds(reply.headers['accept-ranges'] !== 'bytes', 'it says Accept-Ranges: bytes and gives the whole');
        throw new NotApplicable('ranges are not offered');
      }
      if (reply.status !== 206) throw new NotMet(`status ${reply.status}`);
      const part = file.bytes.subarray(1, 4);
      holds(reply.body.equals(part), 'the part is another');
      const said = `bytes 1-${part.length}/${file.bytes.length}`;
      holds(reply.headers['content-range'] === said, 'Content-Range is wrong or missing');
      const beyond = await fileReply(subject, file, { range: `bytes=${file.bytes.length + 10}-` });
      holds([200, 416].includes(beyond.status), `status ${beyond.status} for a range beyond the end`);
      return `206; beyond the end ${beyond.status}`;
    },
  },
];

export const CONTENTS_STATEMENTS: readonly Statement[] = [
  ...REFERENCE_STATEMENTS,
  ...PATH_STATEMENTS,
  ...ABSENCE_STATEMENTS,
  ...HTTP_STATEMENTS,
];
