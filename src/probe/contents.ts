import { foldersWith } from '../lib/paths/file-name.ts';
import { readArchive } from './archive.ts';
import type { ProbeAnswer } from './connection.ts';
import { MISSING } from './references.ts';
import { statementsOf } from './statement.ts';
import { type Subject, workingForm } from './subject.ts';
import { given, holds } from './verdict.ts';
import { isBinary, shapeOf } from './words.ts';

/** Whether an archive holds the files of a folder. Its names may begin with any path. */
function isOfFolder(
  folder: string,
  whole: ReadonlyMap<string, Buffer>,
  found: ReadonlyMap<string, Buffer>,
): boolean {
  const files = [...whole].filter(([path]) => path.startsWith(`${folder}/`));
  const isFound = ([path, bytes]: readonly [string, Buffer]): boolean =>
    [...found].some(([name, its]) => `/${name}`.endsWith(path.slice(folder.length)) && its.equals(bytes));
  return files.length === found.size && files.every(isFound);
}

async function checkFolders(subject: Subject): Promise<string> {
  let count = 0;
  for (const sample of await subject.samples()) {
    for (const folder of [...foldersWith([...sample.files.keys()])].slice(0, subject.options.sample)) {
      const { files } = await readArchive(await subject.askContents(sample, folder), []);
      const isRight = isOfFolder(folder, sample.files, files);
      holds(isRight, 'the archive of a folder does not hold the files of that folder');
      count += 1;
    }
  }
  given(count > 0, 'no folder was found');
  return `${count} folders`;
}

async function checkFiles(subject: Subject): Promise<string> {
  const files = await subject.files();
  for (const { of, path, bytes } of files) {
    const answer = await subject.askContents(of, path);
    holds(answer.status === 200 && isBinary(answer), shapeOf(answer));
    holds(answer.body.equals(bytes), 'a file has other bytes than in the archive');
  }
  const branches = new Set(files.map(({ of }) => of.branch)).size;
  const inFolders = files.filter(({ path }) => path.includes('/')).length;
  const encoded = files.filter(({ path }) => encodeURI(path) !== path).length;
  return `${files.length} files on ${branches} branches, ${inFolders} in folders, ${encoded} by an encoded path`;
}

async function checkConditions(subject: Subject): Promise<string> {
  const answers = new Set<string>();
  const [sample] = await subject.samples();
  const [file] = await subject.files();
  for (const [of, path] of [[sample, undefined] as const, [file.of, file.path] as const]) {
    const ask = (headers = {}): Promise<ProbeAnswer> => subject.askContents(of, path, headers);
    const [one, again] = [await ask(), await ask()];
    const tag = one.headers['etag'];
    if (tag === undefined) continue;
    holds(/^(?:W\/)?"[^"]*"$/.test(tag), 'a malformed tag');
    const isStrong = tag.startsWith('"');
    const isBound = isStrong && tag === again.headers['etag'];
    holds(!isBound || one.body.equals(again.body), 'the bytes differ under one strong tag');
    const fitting = await ask({ 'if-none-match': tag });
    holds([200, 304].includes(fitting.status), `status ${fitting.status} for a tag that fits`);
    const other = await ask({ 'if-none-match': `"${MISSING}"` });
    holds(other.status === 200, `status ${other.status} for a tag that does not fit`);
    answers.add(`${isStrong ? 'a strong' : 'a weak'} tag, status ${fitting.status} while it fits`);
  }
  given(answers.size > 0, 'no ETag');
  return [...answers].join('; ');
}

/** Statements about archives and single files. */
export const CONTENTS_STATEMENTS = statementsOf(
  { group: 'Archives and files', section: '4.1', kind: 'required' },
  {
    'archives.whole': {
      says: '/repos/{repo}/contents gives the whole repository as a zip archive, each entry whole',
      check: async (subject) => {
        given((await subject.repositories()).length > 0, 'there is no repository');
        const { git, dragAndDrop } = await subject.references();
        const form = workingForm(git) ?? workingForm(dragAndDrop);
        holds(form !== null, 'no form of reference gives an archive of any repository');
        const { fault } = await subject.downloads();
        if (fault !== null) throw fault;
        const samples = await subject.samples();
        const isCalledSo = samples.every(({ answer }) => isBinary(answer));
        holds(isCalledSo, 'an archive is called JSON or HTML');
        return `${samples.length} archives, ${samples.reduce((sum, { files }) => sum + files.size, 0)} files`;
      },
      meaning: 'the mirror will download it again and again: archive.damaged',
    },
    'archives.leading_folder': {
      kind: 'open',
      says: 'is there a folder around everything?',
      check: async (subject) => {
        const kinds = new Set((await subject.samples()).map(({ leadingFolder }) => leadingFolder));
        if (kinds.has('wrapped')) return 'yes';
        return kinds.has('unknown') ? 'unknown from the listing' : 'no';
      },
      meaning: (answer) => {
        if (answer === 'yes') return 'the mirror removes it';
        return answer === 'no' ? null : 'the mirror will request single paths to find out';
      },
    },
    'archives.folder': {
      says: '/repos/{repo}/contents/{folder_path} gives the content of that folder',
      check: checkFolders,
    },
    'files.content': {
      says: '/repos/{repo}/contents/{path} gives the file itself, as neither JSON nor HTML, on each branch, in folders, and by an encoded path',
      check: checkFiles,
    },
    'contents.conditional': {
      section: 'RFC 9110, 8.8.3 and 13.1.2',
      kind: 'optional',
      says: 'one strong ETag has the same bytes; If-None-Match gives 304 while it fits, and else the content',
      check: checkConditions,
      meaning: (answer) =>
        answer.includes('a strong tag, status 304')
          ? 'full checks will be conditional requests: cheap for both sides'
          : 'each full check downloads the whole archive',
    },
  },
);
