/**
 * Node's own HTTP. An `import` of it reads all its exports, and one of them is the WebSocket of Node's own undici: that would be loaded
 * with it, for 4 MB of memory.
 */
export const { createServer, request } = process.getBuiltinModule('node:http');
