/** Files that are dropped or chosen. */

/**
 * A file with where it lies in what was dropped.
 * @typedef {{ path: string, file: File }} Dropped
 */

/** @type {Drop} */
const NOTHING = { files: [], leftOutCount: 0 };

/**
 * A drop: its files, and how many folders were left out because no commit can hold them.
 * @typedef {{ files: Dropped[], leftOutCount: number }} Drop
 */

/**
 * The files of a drop, with those in dropped folders.
 * @param {DataTransfer} transfer
 * @returns {Promise<Drop>}
 */
export async function droppedFiles(transfer) {
  // All of them are taken at once: after the first wait the browser gives none any more.
  const taken = [...transfer.items]
    .filter(({ kind }) => kind === 'file')
    .map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found = await Promise.all(
    taken.map(({ entry, file }) => {
      if (entry !== null) return filesOf(entry);
      return Promise.resolve(
        file === null ? NOTHING : { files: [{ path: file.name, file }], leftOutCount: 0 },
      );
    }),
  );
  return together(found);
}

/**
 * @param {FileList} files that were chosen
 * @returns {Drop}
 */
export function chosenFiles(files) {
  return { files: [...files].map((file) => ({ path: file.name, file })), leftOutCount: 0 };
}

/** @param {readonly Drop[]} drops @returns {Drop} */
function together(drops) {
  return {
    files: drops.flatMap(({ files }) => files),
    leftOutCount: drops.reduce((sum, { leftOutCount }) => sum + leftOutCount, 0),
  };
}

/** @param {FileSystemEntry} entry @returns {Promise<Drop>} */
async function filesOf(entry) {
  // Not every browser has the names of these interfaces (Chromium has not).
  if (isFile(entry)) {
    /** @type {File} */
    const file = await new Promise((resolve, reject) => {
      entry.file(resolve, reject);
    });
    return { files: [{ path: entry.fullPath.replace(/^\//, ''), file }], leftOutCount: 0 };
  }
  if (!isFolder(entry)) return NOTHING;
  // A working copy brings the folder in which git keeps its history.
  if (/^\.git$/i.test(entry.name)) return { files: [], leftOutCount: 1 };
  const entries = await childrenOf(entry);
  return together(await Promise.all(entries.map(filesOf)));
}

/** @param {FileSystemDirectoryEntry} folder @returns {Promise<FileSystemEntry[]>} */
async function childrenOf(folder) {
  const reader = folder.createReader();
  /** @type {FileSystemEntry[]} */
  const all = [];
  // It gives some at a time, and none at the end.
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** @param {FileSystemEntry} entry @returns {entry is FileSystemFileEntry} */
function isFile(entry) {
  return entry.isFile;
}

/** @param {FileSystemEntry} entry @returns {entry is FileSystemDirectoryEntry} */
function isFolder(entry) {
  return entry.isDirectory;
}
