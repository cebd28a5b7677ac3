'use strict';
/*
 * node run.cjs MODULE SOURCE WORKSPACE [ARG…] runs MODULE as the main module; its argv is [node, SOURCE, ARG…].
 *
 * The program lies outside the workspace, but its relative imports and packages mean the workspace, as if it lay
 * there. Only requests of the main module are turned; every other module keeps Node's rules, except that a
 * relative import without an extension may mean a .ts file, as in TypeScript.
 *
 * Nothing of the workspace is read before the program asks for it: a script is run here rather than a --require,
 * which would look at the working folder's package.json.
 */
const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const { fileURLToPath, pathToFileURL } = require('node:url');

const [main, source, workspace] = process.argv.splice(2, 3);
process.argv[1] = source;

const place = path.join(workspace, 'main.js');
const placeUrl = pathToFileURL(place).href;
const mainUrl = pathToFileURL(main).href;
const ownFolder = path.dirname(main);

const extended = ['.ts', '.mts', '.cts', '/index.ts'];
const usual = ['', '.js', '.json', '.node', '/package.json', '/index.js'];

/** The request itself, or with the extension of the only file that it can mean. */
function spelled(request, folder) {
  if (!/^\.\.?\//.test(request)) {
    return request;
  }
  const target = path.join(folder, request);
  if (usual.some((end) => fs.statSync(target + end, { throwIfNoEntry: false })?.isFile())) {
    return request;
  }
  const end = extended.find((each) => fs.existsSync(target + each));
  return end === undefined ? request : request + end;
}

const standIn = new Module(place);
standIn.filename = place;
standIn.paths = Module._nodeModulePaths(workspace);

const resolveFilename = Module._resolveFilename;
Module._resolveFilename = function (request, parent, isMain, options) {
  if (isMain || !parent || typeof request !== 'string') {
    return resolveFilename.call(this, request, parent, isMain, options);
  }
  const from = parent.filename === main ? standIn : parent;
  const named = from.filename ? spelled(request, path.dirname(from.filename)) : request;
  return resolveFilename.call(this, named, from, isMain, options);
};

const nodeModulePaths = Module._nodeModulePaths;
Module._nodeModulePaths = (from) => nodeModulePaths(from === ownFolder ? workspace : from);

Module.registerHooks({
  resolve(specifier, context, nextResolve) {
    const parentURL = context.parentURL === mainUrl ? placeUrl : context.parentURL;
    if (!parentURL?.startsWith('file:')) {
      return nextResolve(specifier, context);
    }
    return nextResolve(spelled(specifier, path.dirname(fileURLToPath(parentURL))), { ...context, parentURL });
  },
});

// An ES module may still call require(), as a program that mixes it with a top-level await does. In a CommonJS
// module its own parameter wins.
Object.defineProperty(globalThis, 'require', {
  configurable: true,
  enumerable: false,
  get: () => standIn.require.bind(standIn),
  set(value) {
    Object.defineProperty(globalThis, 'require', { configurable: true, enumerable: true, writable: true, value });
  },
});

process.nextTick(() => Module.runMain(main));
