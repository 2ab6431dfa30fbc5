// The job's standard input, output and error where the job runs with one of them closed.
//
// Every descriptor that is opened gets the lowest free number. In a job that has closed one of the three, a
// socket or a file of the plugin's would become that stream: what the job writes there would reach a scraper
// or end the process by SIGPIPE. So before the plugin opens anything that stays, the closed ones are held
// with /dev/null.
//
// Thread: any. Order: before the page and the plane. Ownership: the three stay with the process; they are
// closed in programs that it executes, which see what they would have seen without the plugin.
#pragma once

namespace stepgate::gate {

void hold_standard_streams() noexcept;

}  // namespace stepgate::gate
