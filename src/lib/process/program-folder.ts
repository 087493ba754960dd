/** The folder of the program's files: `src`, or `dist`, in which a build puts all code side by side. */
export const PROGRAM_FOLDER = new URL(import.meta.url.endsWith('.ts') ? '../../' : './', import.meta.url);
