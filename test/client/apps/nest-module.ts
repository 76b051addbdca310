import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { type NestRequest, RateLimitGuard } from 'weir-client/nestjs';
import { optionsFor } from './options.ts';

class AppController {
  hello(): string {
    return 'hello';
  }
}
// Calls decorators as functions, since Node does not support their syntax.
const hello = Object.getOwnPropertyDescriptor(AppController.prototype, 'hello') as PropertyDescriptor; // it is there
Get(['/', '/health'])(AppController.prototype, 'hello', hello);
Controller()(AppController);

const guard = new RateLimitGuard(
  optionsFor<NestRequest>(
    (request, name) => request.headers[name]?.toString(),
    (request) => request.url,
  ),
);

export class AppModule {}
Module({ controllers: [AppController], providers: [{ provide: APP_GUARD, useValue: guard }] })(AppModule);
