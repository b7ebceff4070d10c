/** What a workspace may hold, whether a tool or an upload puts it there. */
export const workspaceLimits = { fileBytes: 10 * 1024 * 1024, totalBytes: 64 * 1024 * 1024, files: 2_000 };
