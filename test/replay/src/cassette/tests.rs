use super::*;

const RUBY: &str = "---
http_interactions:
<% user = 'a' %>
- request:
    method: post
    uri: https://<%= server %>/sdk
    body:
      encoding: UTF-8
      string: <a/>
    headers:
      Soapaction:
      - urn:vim25/6.7
  response:
    status:
      code: 200
      message: OK
    body:
      encoding: UTF-8
      string: |-
        <b>
        <%= user %></b>
    http_version:
  recorded_at: Tue, 16 Apr 2019 14:20:48 GMT
recorded_with: VCR 4.0.0
";
const PYTHON: &str = "interactions:
- request:
    body: null
    headers: {}
    method: GET
    uri: https://vc:443/sdk/vimServiceVersions.xml
  response:
    body: {string: !!python/unicode 'x'}
    headers:
      content-length: ['0']
    status: {code: 500, message: KO}
version: 1
";

#[test]
fn both_libraries_are_read() {
    let ruby = read(RUBY).unwrap();
    let expected = Exchange {
        method: "POST".into(),
        path: "/sdk".into(),
        headers: Headers { soap_action: "urn:vim25/6.7".into() },
        request: "<a/>".into(),
        status: 200,
        answer: "<b>\ninserted</b>".into(),
    };
    assert_eq!(ruby, [expected]);
    let python = read(PYTHON).unwrap();
    assert_eq!((python[0].path.as_str(), python[0].status), ("/sdk/vimServiceVersions.xml", 500));
    assert_eq!((python[0].request.as_str(), python[0].answer.as_str()), ("", "x"));
}

/// A cassette that is cut at any byte yields an error with its place, unless only the last line is missing.
#[test]
fn a_cassette_that_was_cut_off_is_an_error() {
    for whole in [RUBY, PYTHON] {
        let last = whole.trim_end().rfind('\n').unwrap();
        for end in 0..=last {
            let cut = &whole[..end];
            match read(cut) {
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.contains("exchange") || message.contains("line"), "{message}");
                }
                // A Ruby cassette's last line only contains the library name.
                Ok(_) => assert!(whole == RUBY && cut.contains("recorded_at: "), "{cut}"),
            }
        }
    }
}

#[test]
fn other_yaml_is_no_cassette() {
    assert!(!is_cassette("--- !ruby/object:A\nprops:\n  :key: 1\n"));
    assert!(is_cassette(RUBY) && is_cassette(PYTHON));
}
