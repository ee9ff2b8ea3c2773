/** The package has no types; these cover what the tests use. */
declare module 'simple-oauth2' {
  interface Options {
    client: { id: string; secret: string };
    auth: { tokenHost: string; tokenPath: string; authorizePath: string };
    options?: { authorizationMethod?: 'header' | 'body'; scopeSeparator?: string };
    http?: object;
  }
  interface AuthorizeParameters {
    redirect_uri: string;
    scope: string | string[];
    state: string;
  }
  export class AuthorizationCode {
    constructor(options: Options);
    authorizeURL(parameters: AuthorizeParameters): string;
    getToken(parameters: {
      code: string;
      redirect_uri: string;
    }): Promise<{ token: Record<string, unknown>; expired(): boolean }>;
  }
}
